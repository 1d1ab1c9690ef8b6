"""The whole workflow in one call: Snakemake in this process, a bar over its steps, the time of each stage.

`python -m workflow.book notebook NAME --family F` and its siblings are the steps that the Snakefile calls.
"""

import argparse
import json
import logging
import os
import re
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from tqdm import tqdm

from rbplib.families import InputError, argument, load_corpus, load_family, one_each, results_dir, root, write_text
from rbplib.inputs import interrupt, one_at_a_time, stopped_by, sweep
from workflow import html, notebooks

STAGES = {"measure": "measure", "notebook": "notebooks", "together": "notebooks", "html": "pages"}
# Each scheduling asks for another one after this span, beside those that follow the end of a step: at the default of a
# second they add up to a tenth of the book's time.
UNHURRIED = ("--max-jobs-per-timespan", "10000/1h")
LAST = 15  # lines of a failed step's log that are shown


class Steps(logging.Handler):
    """Snakemake's log records (its logger plugins get the same) as a bar, stage times, and what failed steps said."""

    def __init__(self, show):
        super().__init__(logging.INFO)
        self.started, self.spans = {}, {}  # {job: (rule, second)}, {stage: (steps, first second, last second)}
        self.said, self.errors, self.stopped = [], [], False
        self.bar = tqdm(unit="step", disable=not show, desc="book", mininterval=0.2, dynamic_ncols=True)
        self.ended = threading.Event()
        if show and sys.stderr.isatty():  # the clock moves on while a long step runs
            threading.Thread(target=self._tick, daemon=True).start()

    def _tick(self):
        while not self.ended.wait(1):
            self.bar.refresh()

    def close(self):
        self.ended.set()
        self.bar.close()
        super().close()

    def emit(self, record):
        event = getattr(record, "event", None)
        if event == "run_info":
            stopped_by(stop)  # again: Snakemake has SIGTERM wait for the steps
            self.bar.reset(record.stats["total"])
        elif event == "job_info":
            self.started[record.jobid] = record.rule_name, time.monotonic()
            self.bar.set_postfix_str(record.rule_msg or record.rule_name)
        elif event == "job_finished":
            self._finished(*self.started[record.job_id], time.monotonic())
        elif event == "progress":
            self.bar.update(record.done - self.bar.n)
        elif event == "job_error":
            self.said += [line for log in record.log for line in last_lines(log)]
        elif record.levelno >= logging.ERROR:
            self.errors.append(record.getMessage())
        self.stopped |= isinstance(sys.exc_info()[1], KeyboardInterrupt)  # Snakemake catches it, tells, and fails

    def _finished(self, rule, start, end):
        if stage := STAGES.get(rule.split("__")[0]):
            steps, first, _ = self.spans.get(stage, (0, start, end))
            self.spans[stage] = steps + 1, min(first, start), end


def stop(*_):
    """End as Ctrl-C does, and every step with its children as well."""
    import psutil  # Snakemake's

    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            child.terminate()
    interrupt()


def last_lines(log):
    path = root() / log
    return path.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST:] if path.is_file() else []


def run(arguments, log, show=True):
    """Run Snakemake with the arguments of its command line to its end: a bar over its steps, its words in a log.

    Returns:
        {stage: (steps, seconds)}; seconds from the stage's first start to its last end.
    Raises:
        InputError: it is not installed. RuntimeError: a step failed; the message holds the last lines of its log.
        KeyboardInterrupt: it was stopped, as by SIGINT, SIGTERM or SIGHUP; the steps that ran have ended.
    """
    try:
        from snakemake import cli
        from snakemake.logging import DefaultFormatter
    except ImportError:
        raise InputError("the workflow needs snakemake: run `make env`, or install the extra 'flow'.") from None
    write_text(log, "")  # one sentence where the folder may not be written
    steps, words = Steps(show), logging.FileHandler(log, "w", encoding="utf-8")
    words.setFormatter(DefaultFormatter())
    logger = logging.getLogger("snakemake")  # the parent of Snakemake's own, whose handlers it takes away itself
    logger.handlers = [steps, words]
    stopped_by(stop)
    try:
        cli.main([*map(str, arguments), *UNHURRIED, "--quiet", "all"])
    except SystemExit as end:
        failed = end.code
    finally:
        stopped_by(interrupt)
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):  # by which Snakemake would schedule again; Python would wait for it
                thread.cancel()
        logger.handlers = []
        steps.close()
        words.close()
    if failed and (steps.stopped or not steps.said + steps.errors):
        raise KeyboardInterrupt
    if found := re.search(r"^InputError in file .*\n(.*)", "\n".join(steps.errors), re.M):  # told while it was planned
        raise InputError(found[1])
    if failed:
        raise RuntimeError("\n".join(steps.said or steps.errors) + f"\nThe whole log is {log}")
    return {stage: (n, last - first) for stage, (n, first, last) in steps.spans.items()}


def make_book(families=(), settings=None, show=True, corpora=()):
    """Run the whole workflow: measure, notebooks, HTML; then tell what each stage took and where the first page is.

    Args:
        families: names or YAML paths; all embedded families when empty. settings: {key: value}, such as n_bootstrap.
        corpora: names or paths, the text of every page; each family's own when empty.
    Returns:
        path of the first page.
    """
    config = dict(settings or {})
    if families:  # an unknown name fails here, before anything starts
        config["families"] = list(map(argument, one_each(map(load_family, families), "families")))
    if corpora:
        corpora = one_each(map(load_corpus, corpora), "corpora")
        config["corpora"] = list(map(argument, corpora))
    if any(corpus.path == "-" for corpus in corpora or ()):
        raise InputError("the pages of a book are many programs, none of which can read standard input: give a file.")
    refuse_names()
    homes = [root(), Path(__file__).resolve().parents[1]]
    flow = next((p / "workflow" for p in homes if (p / "workflow" / "Snakefile").is_file()), None)
    if flow is None:  # installed without a checkout
        raise InputError("the book is built in a checkout of the repository: run this there, or name it in RBP_ROOT.")
    arguments = ["--snakefile", flow / "Snakefile", "--directory", root(), "--profile", flow / "profiles/default"]
    arguments += ["--cores", os.cpu_count()]
    arguments += ["--config", *(f"{k}={json.dumps(v)}" for k, v in config.items())] if config else []
    with alone():
        began = time.monotonic()
        stages = run(arguments, root() / "logs" / "book.log", show)
    if show:
        report(stages, time.monotonic() - began)
    return root() / "_build" / "html" / "index.html"


def refuse_names(unfit=r"[{}]", who="the workflow", more=()):
    """Refuse paths that are read as more than names: those with a brace, which Snakemake and papermill fill in."""
    for name in map(str, (root(), results_dir(), Path(__file__), *more)):
        if found := re.search(unfit, name):
            raise InputError(f"{who} takes no {found[0]!r} in a name, {name}: give it another.")


@contextmanager
def alone():
    """Be the one process that makes this root's book; what killed ones left, Snakemake's lock too, is removed."""
    with one_at_a_time(root() / "logs" / "book.log"):
        for lock in root().glob(".snakemake/locks/*"):
            lock.unlink()
        pages, tables = root().glob("book/_executed/*"), results_dir().glob("ranks/*/*")
        sweep([root() / "logs", *pages, results_dir(), *results_dir().glob("*"), *tables])
        yield


def report(stages, total):
    """Print a line per stage: seconds from its first start to its last end. Stages overlap, so they do not add up."""
    ready = Path(sys.prefix) / ".ready"
    if ready.is_file():
        print(f"{'install':<12}{float(ready.read_text() or 0):>8.0f} s   (when the environment was made)")
    for name, (steps, seconds) in stages.items():
        print(f"{name:<12}{seconds:>8.0f} s   {steps} step{'s' if steps > 1 else ''}")
    print(f"{'total':<12}{total:>8.0f} s")


def main(argv=None):
    """The workflow's own steps; people use `rbp book`."""
    parser = argparse.ArgumentParser(prog="python -m workflow.book", description=main.__doc__)
    parser.add_argument("step", choices=("notebook", "figure", "html"))
    parser.add_argument("name", nargs="?", help="of the notebook")
    parser.add_argument("--family")
    parser.add_argument("--made-of", help="hash of all that goes into the page")
    parser.add_argument("--parameters", type=json.loads, default={}, help="JSON, as '{\"n_bootstrap\": 1000}'")
    a = parser.parse_args(argv)
    stopped_by(interrupt)
    try:
        if a.step == "notebook":
            notebooks.run_notebook(a.name, a.family, parameters=a.parameters, made_of=a.made_of)
        elif a.step == "figure":
            print(html.law_figure(root() / "book" / "_static" / "law.svg"))
        else:
            print(html.build_html())
    except (InputError, RuntimeError) as error:
        print(f"rbp: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
