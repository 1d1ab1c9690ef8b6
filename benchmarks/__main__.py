"""python -m benchmarks [NAME] [--quick]

NAME is one of heads, ranks, whole, imports, joint, book, gpu, vllm; without a name: all.
"""

import importlib
import sys

NAMES = ("heads", "ranks", "whole", "imports", "joint", "book", "gpu", "vllm")


def main(arguments):
    if arguments and arguments[0] in NAMES:
        return importlib.import_module(f"benchmarks.{arguments[0]}").main(arguments[1:])
    if arguments not in ([], ["--quick"]):
        print(__doc__.strip())
        return 0 if arguments[0] in ("-h", "--help") else 2
    code = 0
    for name in NAMES:
        print(f"== {name}")
        code = max(code, importlib.import_module(f"benchmarks.{name}").main(arguments))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
