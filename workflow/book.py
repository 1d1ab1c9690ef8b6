"""`rbp book`: the whole workflow in one call, Snakemake in this process with a bar over its
steps."""

import json
import logging
import re
import signal
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from shutil import rmtree

from tqdm import tqdm

from rbplib.cli import Parser, names
from rbplib.families import (
    InputError,
    argument,
    load_family,
    one_at_a_time,
    one_each,
    results_dir,
    root,
    telling,
    write_text,
)
from workflow import html
from workflow.page import CHECKOUT, ended, found

stopping = threading.Event()  # set once a signal ended the book, and with it its steps


class Steps(logging.Handler):
    """Snakemake's log records as a bar, and what failed steps wrote."""

    def __init__(self, show):
        super().__init__(logging.INFO)
        self.messages = {}  # {job: what it does}
        self.failures, self.errors = [], []
        self.bar = tqdm(unit="step", disable=not show, desc="book")

    def emit(self, record):
        match getattr(record, "event", None):
            # what begins and ends
            case "run_info":
                on_signals(stop)  # again: Snakemake has SIGTERM wait for the steps
                self.bar.reset(record.stats["total"])
            case "job_info":
                self.messages[record.jobid] = record.rule_msg or record.rule_name
                self.bar.set_postfix_str(self.messages[record.jobid])
            case "progress":
                self.bar.update(record.done - self.bar.n)
            # what fails
            case "job_error" if not stopping.is_set():
                self.failures.append(failure(*record.log, self.messages[record.jobid]))
            case _ if record.levelno >= logging.ERROR:
                self.errors.append(record.getMessage())


def failure(log, message):
    """The last 15 lines of a failed step, and its name where it could not say why it ended."""
    path = root() / log
    text = path.read_text("utf-8", "replace") if path.is_file() else ""
    lines = text.splitlines()[-15:]
    if not any(re.match(r"rbp:|\w*Error\b", line) for line in lines):
        lines.append(f"{message}: killed by the system, as for want of memory; it left no error.")
    return "\n".join(lines)


def on_signals(action):
    """Let the signals that end a process call `action`, but for those it was started to ignore."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, action)


def stop(*_):
    """End as Ctrl-C does, and every step with its children as well; once is enough."""
    import psutil  # Snakemake's

    on_signals(signal.SIG_IGN)
    stopping.set()
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            child.terminate()
    raise KeyboardInterrupt


def run(arguments, show=True):
    """Run Snakemake with the arguments of its command line; its words go to a log.

    Raises:
        InputError: it is not installed, or refused while planning. RuntimeError: a step failed.
        KeyboardInterrupt: it was stopped; the steps that ran have ended.
    """
    with telling("the workflow needs snakemake, run `make env`"):
        from snakemake import cli
        from snakemake.logging import DefaultFormatter

    # Snakemake takes the handlers of its own logger away itself: these are on its parent
    log = root() / "logs" / "book.log"
    write_text(log, "")
    stopping.clear()
    steps, words = Steps(show), logging.FileHandler(log, encoding="utf-8")
    words.setFormatter(DefaultFormatter())
    logger = logging.getLogger("snakemake")
    logger.handlers = [steps, words]
    # Each scheduling asks for another one after a span, beside those that follow the end of a step:
    # at the default of a second they add up to a tenth of the book's time.
    arguments += ["--quiet", "all", "--max-jobs-per-timespan", "10000/1h"]
    try:
        cli.main(list(map(str, arguments)))
    except SystemExit as end:
        failed = end.code
    finally:
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):  # of the scheduler; Python would wait for it
                thread.cancel()
        logger.handlers = []
        steps.bar.close()
        words.close()

    # what went wrong, in the words of who knows
    errors = "\n".join(steps.errors)
    if refused := re.search(r"^InputError in file .*\n(.*)", errors, re.M):
        raise InputError(refused[1])
    if failed and (stopping.is_set() or not steps.failures and not errors):
        raise KeyboardInterrupt
    if failed:
        raise RuntimeError("\n".join(steps.failures or steps.errors) + f"\nThe whole log is {log}")


def refuse_names(unfit=r"[{}]", who="the workflow", more=()):
    """Refuse paths that are read as more than names, as with a brace, which Snakemake fills in."""
    for name in map(str, (root(), results_dir(), CHECKOUT, *more)):
        if sign := re.search(unfit, name):
            raise InputError(f"{who} takes no {sign[0]!r} in a name, {name}: give it another.")


def alone():
    """Be the one process that makes this root's book; the lock ends with its process."""
    return one_at_a_time(root() / "logs" / "book")


@contextmanager
def temporary_folder():
    """The book's own, logs/tmp: what a killed book left there the next one removes."""
    folder = root() / "logs" / "tmp"
    rmtree(folder, ignore_errors=True)
    with telling(f"{folder} cannot be made anew, move it away"):
        folder.mkdir()
    tempfile.tempdir = str(folder)  # Snakemake's, who sets it for the steps and their kernels
    try:
        yield folder
    finally:
        tempfile.tempdir = None
        rmtree(folder, ignore_errors=True)


def make_book(families=(), corpora=(), show=True, jobs=None, keep_going=False, **settings):
    """Run the whole workflow: measure, notebooks, HTML.

    Args:
        families: names or YAML paths, set beside the embedded ones, or alone where settings have
            "only". corpora: the same. jobs: cores; all when None. keep_going: where a step fails,
            build the book of the pages that are there. settings: of the workflow ("replace":
            tables of another record are measured again), or a notebook's parameters.
    Returns:
        path of the first page.
    Raises:
        InputError, RuntimeError: as `run`.
    """
    # an unknown name fails here, before anything starts
    families = one_each(map(load_family, families), "families")
    settings["corpora"] = found(corpora, *families[:1])
    settings["families"] = list(map(argument, families))
    config = [f"{key}={json.dumps(value)}" for key, value in settings.items() if value]
    refuse_names()

    flow, gpus = CHECKOUT / "workflow", settings.get("gpus") or 1
    arguments = ["--snakefile", flow / "Snakefile", "--profile", flow / "profiles/default"]
    arguments += ["--directory", root(), "--cores", jobs or "all", "--resources", f"gpu={gpus}"]
    with alone(), temporary_folder() as folder:
        arguments += ["--runtime-source-cache-path", folder / "sources", "--config", *config]
        try:
            run(arguments, show)
        except RuntimeError:
            if keep_going:
                html.build_html()
            raise
    return root() / "_build" / "html" / "index.html"


def main(argv=None):
    # options
    parser = Parser(prog="rbp book", description=make_book.__doc__.split("\n")[0])
    several = {"action": "extend", "type": names, "default": []}
    add = parser.add_argument
    add("--family", dest="families", help="beside the embedded: names or YAML", **several)
    add("--corpus", dest="corpora", help="texts of these families' pages, or of all", **several)
    add("--only", action="store_true", help="these families without the embedded")
    add("--replace", action="store_true", help="measure tables of another record again")
    add("--keep-going", action="store_true", help="build the pages there are where a step fails")
    add("--jobs", type=int, help="cores (default: all)")
    add("--gpus", type=int, help="GPUs, with --device cuda a model on each")
    add("--device", help="cpu, cuda, mps, or auto (spread over devices)")
    add("--dtype", help="of the weights, as of `rbp measure`")

    # make it, and say how long it took
    options = vars(parser.parse_args(argv))
    for name in ("jobs", "gpus"):
        if options[name] is not None and options[name] < 1:
            parser.error(f"--{name} cannot be {options[name]}: give 1 or more")
    on_signals(stop)
    began = time.monotonic()

    return ended(
        lambda: f"first page: {make_book(**options)}, made in {time.monotonic() - began:.0f} s"
    )


if __name__ == "__main__":
    raise SystemExit(main())
