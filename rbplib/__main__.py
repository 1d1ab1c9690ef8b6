"""`python -m rbplib` is `rbp`."""

from rbplib.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
