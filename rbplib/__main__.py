"""`python -m rbplib`: the `rbp` command."""

from rbplib.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
