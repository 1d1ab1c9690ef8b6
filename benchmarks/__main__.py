"""python -m benchmarks [NAME] [options], NAME one of ranks, explore, precision, bootstrap, distributions, plan, memory,
gpu, report.

Without a name: everything that runs on this machine, then the table and the figures.
"""

import importlib
import sys

NAMES = ("ranks", "explore", "precision", "bootstrap", "distributions", "plan", "memory", "gpu")


def main(argv):
    if argv and argv[0] in (*NAMES, "report"):
        return importlib.import_module(f"benchmarks.{argv[0]}").main(argv[1:])
    if argv:
        print(__doc__.strip())
        return 0 if argv[0] in ("-h", "--help") else 2
    worst = 0
    for name in NAMES:
        print(f"== {name}")
        worst = max(worst, importlib.import_module(f"benchmarks.{name}").main([]) or 0)
    return max(worst, importlib.import_module("benchmarks.report").main())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
