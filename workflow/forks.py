"""Steps as forks of one process that has imported what all of them need.

What a step prints goes to a file of its own in logs/. Standard output has a line for each page and
table that is begun or done, with the count of the book's steps; logs/steps.jsonl keeps what each
took. A step that fails is told by the last that it wrote, without what could steer a terminal.
"""

import gc
import json
import multiprocessing
import os
import sys
import time
from contextlib import contextmanager
from multiprocessing.connection import wait

from rbplib.families import InputError, printable, root

ENDED = 90  # exit code of a fork that came to its end; any other is a failure, as 0 of os._exit
terminal = 1  # standard output of the process that forks, as its forks keep it


class Failed(InputError):
    """What was begun did not come to its end; why, in its own words."""

    code = 1


def record():
    return root() / "logs" / "steps.jsonl"


def tell(words):
    """Print a line after the count of steps that are done, of those that the book has."""
    steps = record().read_text(encoding="utf-8") if record().is_file() else ""
    done = len(steps.splitlines()) - steps.count('"kind": "text"')
    line = f"[{done} of {os.environ.get('RBP_STEPS', '?')}] {printable(words)}\n"
    os.write(terminal, line.encode())


@contextmanager
def step(kind, name):
    """Something that is told as it begins and as it ends, and what it took is kept.

    kind: "text", "table", "page" or "html".
    """
    tell(f"begun: {kind} {name}")
    began, before = time.monotonic(), sum(os.times()[:4])
    yield
    took = {"seconds": time.monotonic() - began, "cpu": sum(os.times()[:4]) - before}
    record().parent.mkdir(exist_ok=True)
    with open(record(), "a", encoding="utf-8") as file:
        file.write(json.dumps({"kind": kind, "name": name, **took}) + "\n")
    tell(f"done: {kind} {name}, {took['seconds']:.0f} s")


def fork(log, function):
    """The body of a step's process, whose output goes to a file."""
    global terminal
    terminal = os.dup(1)
    sys.stdout = sys.stderr = open(log, "w", buffering=1, errors="backslashreplace")
    for number in (1, 2):
        os.dup2(sys.stdout.fileno(), number)
    try:
        function()
    except (InputError, RuntimeError) as error:
        sys.exit("rbp: " + str(error).removeprefix("rbp: "))
    sys.exit(ENDED)


def run_all(steps, jobs=1):
    """Run steps, (name, function without arguments), `jobs` at once; names of those that failed.

    All are tried, and why one failed is printed on standard error. An iterator of steps may import
    what its next one needs.
    """
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    running, failed = {}, []
    (root() / "logs").mkdir(exist_ok=True)
    gc.set_threshold(10**6)  # garbage is looked for seldom, and what is imported never
    steps = iter(steps)
    while True:
        # begin
        while len(running) < jobs and (following := next(steps, None)):
            name, function = following
            gc.freeze()
            log = root() / "logs" / f"{name.replace('/', '-')}.log"
            process = context.Process(target=fork, args=(log, function))
            process.start()
            running[process.sentinel] = process, name, log
        if not running:
            return failed
        # end
        for sentinel in wait(list(running)):
            process, name, log = running.pop(sentinel)
            process.join()
            if process.exitcode != ENDED:
                failed.append(name)
                print(why(name, log, process.exitcode), file=sys.stderr, flush=True)


def why(name, log, code):
    """Why a step failed: what it said last, or how it ended."""
    if code < 0:
        return f"rbp: {name} was killed by the system, as for want of memory."
    words = printable("\n".join(log.read_text("utf-8", "replace").splitlines()[-15:]))
    if code == 1 and "rbp: " in words:
        return f"rbp: {name}: {words.rpartition('rbp: ')[2]}"
    return f"{words}\nrbp: {name} ended before its end, with exit code {code}."
