"""`rbp book`: the whole workflow in one call, Snakemake in this process with a bar over its
steps."""

import argparse
import json
import logging
import os
import re
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import filelock
from tqdm import tqdm

from rbplib.families import (
    InputError,
    argument,
    load_corpus,
    load_family,
    one_each,
    results_dir,
    root,
    write_text,
)

FLOW = Path(__file__).resolve().parent
STAGES = {"measure": "measure", "notebook": "notebooks", "together": "notebooks", "html": "pages"}
# Each scheduling asks for another one after this span, beside those that follow the end of a step:
# at the default of a second they add up to a tenth of the book's time.
UNHURRIED = ("--max-jobs-per-timespan", "10000/1h")
LAST = 15  # lines of a failed step's log that are shown


class Steps(logging.Handler):
    """Snakemake's log records as a bar, the time of each stage, and what failed steps wrote."""

    def __init__(self, show):
        super().__init__(logging.INFO)
        self.started = {}  # {job: (rule, words, second)}
        self.stages = {}  # {stage: (steps, first second, last second)}
        self.failures, self.errors = [], []
        self.bar = tqdm(unit="step", disable=not show, desc="book", mininterval=0.2)

    def close(self):
        self.bar.close()
        super().close()

    def emit(self, record):
        event = getattr(record, "event", None)
        if event == "run_info":
            on_signals(stop)  # again: Snakemake has SIGTERM wait for the steps
            self.bar.reset(record.stats["total"])
        elif event == "job_info":
            words = record.rule_msg or record.rule_name
            self.started[record.jobid] = record.rule_name, words, time.monotonic()
            self.bar.set_postfix_str(words)
        elif event == "job_finished":
            self.finish(record.job_id)
        elif event == "progress":
            self.bar.update(record.done - self.bar.n)
        elif event == "job_error":
            self.fail(record)
        elif record.levelno >= logging.ERROR:
            self.errors.append(record.getMessage())

    def fail(self, record):
        """Keep what a failed step wrote, and its name where it could not say why it ended."""
        lines = [line for log in record.log for line in last_lines(log)]
        if not any(re.match(r"rbp:|\w*Error\b", line) for line in lines):
            _, words, _ = self.started.get(record.jobid, ("", "a step", 0))
            lines.append(f"{words}: killed by the system, as for want of memory; it left no error.")
        self.failures += lines

    def finish(self, job):
        rule, _, start = self.started[job]
        stage, end = STAGES.get(rule.split("__")[0]), time.monotonic()
        if stage:
            steps, first, _ = self.stages.get(stage, (0, start, end))
            self.stages[stage] = steps + 1, min(first, start), end


def last_lines(log):
    """The end of a step's log, or nothing where it is empty."""
    path = root() / log
    if not path.is_file():
        return []
    return path.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST:]


def on_signals(action):
    """Let the signals that end a process call `action`, but for those it was started to ignore."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with suppress(ValueError):  # not the main thread
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, action)


def interrupt(*_):
    """End as Ctrl-C does; once is enough."""
    on_signals(signal.SIG_IGN)
    raise KeyboardInterrupt


def stop(*_):
    """End as Ctrl-C does, and every step with its children as well."""
    import psutil  # Snakemake's

    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            child.terminate()
    interrupt()


def run(arguments, log, show=True):
    """Run Snakemake with the arguments of its command line; its words go to a log.

    Returns:
        {stage: (steps, seconds)}, from the stage's first start to its last end.
    Raises:
        InputError: it is not installed, or refused while planning. RuntimeError: a step failed.
        KeyboardInterrupt: it was stopped; the steps that ran have ended.
    """
    try:
        from snakemake import cli
        from snakemake.logging import DefaultFormatter
    except ImportError:
        raise InputError("the workflow needs snakemake: run `make env`.") from None

    # Snakemake takes the handlers of its own logger away itself: these are on its parent
    write_text(log, "")
    steps, words = Steps(show), logging.FileHandler(log, "w", encoding="utf-8")
    words.setFormatter(DefaultFormatter())
    logger = logging.getLogger("snakemake")
    logger.handlers = [steps, words]
    on_signals(stop)
    try:
        cli.main([*map(str, arguments), *UNHURRIED, "--quiet", "all"])
    except SystemExit as end:
        failed = end.code
    finally:
        on_signals(interrupt)
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):  # of the scheduler; Python would wait for it
                thread.cancel()
        logger.handlers = []
        steps.close()
        words.close()

    # what went wrong, in the words of who knows
    errors = "\n".join(steps.errors)
    if failed and not steps.failures and not errors:
        raise KeyboardInterrupt
    if refused := re.search(r"^InputError in file .*\n(.*)", errors, re.M):
        raise InputError(refused[1])
    if failed:
        raise RuntimeError("\n".join(steps.failures or steps.errors) + f"\nThe whole log is {log}")
    return {stage: (n, last - first) for stage, (n, first, last) in steps.stages.items()}


def refuse_names(unfit=r"[{}]", who="the workflow", more=()):
    """Refuse paths that are read as more than names, as with a brace, which Snakemake fills in."""
    for name in map(str, (root(), results_dir(), FLOW, *more)):
        if sign := re.search(unfit, name):
            raise InputError(f"{who} takes no {sign[0]!r} in a name, {name}: give it another.")


@contextmanager
def alone():
    """Be the one process that makes this root's book; the lock ends with its process."""
    place = root() / "logs" / ".book.lock"
    place.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(place, is_singleton=True)
    try:
        lock.acquire(timeout=3)
    except filelock.Timeout:
        print(
            f"rbp: another process makes the book in {root()}: waiting until it ends.",
            file=sys.stderr,
        )
        lock.acquire()
    with lock:
        lock.release()  # the block holds it once more
        yield


def make_book(families=(), settings=None, show=True, corpora=(), replace=False):
    """Run the whole workflow: measure, notebooks, HTML; then tell what each stage took.

    Args:
        families: names or YAML paths; all embedded families when empty. corpora: the same.
        settings: {parameter of a notebook: value}. replace: tables of another record are measured
        again.
    Returns:
        path of the first page.
    """
    config = dict(settings or {})
    if families:  # an unknown name fails here, before anything starts
        config["families"] = [argument(f) for f in one_each(map(load_family, families), "families")]
    if corpora:
        corpora = one_each(map(load_corpus, corpora), "corpora")
        config["corpora"] = [argument(corpus) for corpus in corpora]
    if replace:
        config["replace"] = True
    refuse_names()

    arguments = ["--snakefile", FLOW / "Snakefile", "--directory", root()]
    arguments += ["--profile", FLOW / "profiles/default", "--cores", os.cpu_count()]
    if config:
        arguments += ["--config", *(f"{key}={json.dumps(value)}" for key, value in config.items())]
    with alone():
        began = time.monotonic()
        stages = run(arguments, root() / "logs" / "book.log", show)
    if show:
        report(stages, time.monotonic() - began)
    return root() / "_build" / "html" / "index.html"


def report(stages, total):
    """Print a line per stage. Stages overlap, so they do not add up."""
    ready = Path(sys.prefix) / ".ready"
    if ready.is_file():
        seconds = float(ready.read_text() or 0)
        print(f"{'install':<12}{seconds:>8.0f} s   (when the environment was made)")
    for name, (steps, seconds) in stages.items():
        print(f"{name:<12}{seconds:>8.0f} s   {steps} step{'s' if steps > 1 else ''}")
    print(f"{'total':<12}{total:>8.0f} s")


def main(argv=None):
    parser = argparse.ArgumentParser(prog="rbp book", description=make_book.__doc__.split("\n")[0])
    parser.add_argument("--family", action="append", help="a name or YAML path (repeatable)")
    parser.add_argument("--corpus", action="append", help="the text of every page (repeatable)")
    parser.add_argument(
        "--replace", action="store_true", help="measure tables of another record again"
    )
    options = parser.parse_args(argv)
    on_signals(interrupt)
    try:
        first = make_book(options.family or (), None, True, options.corpus or (), options.replace)
        print("first page:", first)
    except (InputError, RuntimeError) as error:
        print(f"rbp: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except KeyboardInterrupt:
        print("rbp: stopped; run the same command again to go on from here.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
