"""The line to the hub: every request bounded, a silence explained on stderr, each failure told in one sentence.

huggingface_hub retries by itself, in several layers and without a word; two hooks on its HTTP session count what it
asks and how it is answered, so that a busy server ends after TRIES and every wait can be told.
"""

import errno
import logging
import sys
import textwrap
import threading
import time
from collections import Counter
from contextlib import contextmanager

from rbplib.families import InputError

TRIES = 5  # of one request, by the library or by us
WAIT = 1.0  # seconds before the second try of a whole call, doubled each time
SILENCE = 5.0  # seconds until a line says what is waited for; doubled after each line
LONGEST = 60  # seconds that a busy server may ask to wait, and between two lines
VAIN = [float("-inf")]  # when the last try of a call failed, by the monotonic clock
BUSY = (408, 429, 500, 502, 503, 504)  # a server that may answer later
TRIED = Counter()  # by method and address: requests since the last that was served
NEWS = ["the hub", "no connection yet"]  # the host heard of last, and words or the response whose content comes


@contextmanager
def watched():
    """Bound the library's requests inside, and say what they wait for."""
    from huggingface_hub import get_session

    hooks, theirs, done = get_session().event_hooks, logging.getLogger("huggingface_hub"), threading.Event()
    for kind, hook in (("request", asking), ("response", answered)):
        if hook not in hooks[kind]:
            hooks[kind].append(hook)
    level = theirs.level
    theirs.setLevel(logging.ERROR if level == logging.WARNING else level)  # it has two lines for each retry
    threading.Thread(target=speak, args=(done,), daemon=True).start()
    try:
        yield
    finally:
        theirs.setLevel(level)
        done.set()


def speak(done):
    """Say what is waited for, after SILENCE and then at growing intervals, until it is done."""
    from tqdm import tqdm

    pause = SILENCE
    while not done.wait(pause):
        host, news = NEWS
        news = news if isinstance(news, str) else f"{news.num_bytes_downloaded:,} bytes of a file came so far"
        tqdm.write(f"waiting for {host}: {news}", file=sys.stderr)
        pause = min(2 * pause, LONGEST)


def asking(request):
    """Hook of a request: it waits no longer than the user's settings say, where the library would wait for ever."""
    from huggingface_hub import constants

    limit = max(constants.HF_HUB_DOWNLOAD_TIMEOUT, constants.HF_HUB_ETAG_TIMEOUT)
    asked, key = request.extensions["timeout"], (request.method, request.url.copy_with(query=None))
    request.extensions["timeout"] = {part: min(seconds or limit, limit) for part, seconds in asked.items()}
    TRIED[key] += 1
    NEWS[:] = request.url.netloc.decode(), f"no answer yet, try {TRIED[key]}"


def answered(response):
    """Hook of an answer: a server that stays busy, or asks for too long a wait, is an error that nobody retries."""
    from huggingface_hub.utils import hf_raise_for_status, parse_ratelimit_headers

    key, after = (response.request.method, response.url.copy_with(query=None)), response.headers.get("retry-after", "")
    if response.status_code not in BUSY:
        TRIED[key], NEWS[1] = 0, response
        return
    limits = parse_ratelimit_headers(response.headers)
    pause = limits.reset_in_seconds if limits and not limits.remaining else int(after) if after.isdigit() else 0
    TRIED[key] = TRIES if pause > LONGEST else TRIED[key]
    NEWS[1] = f"it answers {response.status_code}, try {TRIED[key]} of {TRIES}"
    if TRIED[key] >= TRIES:
        response.read()
        hf_raise_for_status(response)


def patiently(call):
    """Call again, after a growing pause, while the server is busy or the line breaks; the last error is raised.

    Within a minute of one that was tried in vain, as for the next model of a family, a call is made once.
    """
    TRIED.clear()
    tries = 1 if time.monotonic() < VAIN[0] + LONGEST else TRIES
    for attempt in range(tries):
        try:
            result, VAIN[0] = call(), float("-inf")
            return result
        except Exception as error:
            if attempt + 1 == tries or not passing(error) or max(TRIED.values(), default=0) >= TRIES:
                VAIN[0] = time.monotonic() if passing(error) else VAIN[0]
                raise
            time.sleep(WAIT * 2**attempt)


# Errors are known by their classes' names, so that no library is loaded to ask.
BROKEN = ("RemoteProtocolError", "ReadError")  # a line that had been there
AWAY = ("TransportError", "ConnectionError", "TimeoutError", "LocalEntryNotFoundError")  # no line, nor a kept file
STRANGE = ("JSONDecodeError", "KeyError", "TypeError", "AttributeError")  # an answer that is not the hub's
FULL = ("ENOSPC", "EDQUOT", "EFBIG")
UNFIT = ("ENAMETOOLONG", "FileExistsError", "ValueError")
SHUT = ("PermissionError", "NotADirectoryError", "EROFS")
GATED, ABSENT = ("GatedRepoError", 403), ("RepositoryNotFoundError", 401)
WORDS = ("Invalid credentials", "Consistency check failed", "free disk space")  # in errors that have no class
TOLD = {  # what is said of an error that bears one of these signs; the first that fits
    "the hub refuses your token for {it}: log in anew with `hf auth login`.": WORDS[:1],
    "{it} is gated: accept its terms on its page of the hub, log in with `hf auth login`, and run again.": GATED,
    "{it} has no revision {revision!r}: check the name of the branch or commit.": ("RevisionNotFoundError",),
    "{it} does not exist on the hub, or is private: check its spelling, or log in with `hf auth login`.": ABSENT,
    "{it} lacks a file that it lists ({why}): run again, or name another revision.": ("RemoteEntryNotFoundError",),
    "the hub answers {code} for {it}: try again later.": BUSY,
    "{host} does not send all of {it}, or more ({why}): try later or from another network.": WORDS[1:2],
    "{host} names no hash for {it}, to check a file by: try without proxy or mirror.": ("FileMetadataError",),
    "{host} did not answer in time for {it}: try later, or raise HF_HUB_DOWNLOAD_TIMEOUT (s).": ("TimeoutException",),
    "the download of {it} from {host} kept breaking off: run again; files that came whole are kept.": BROKEN,
    "{host} sends {it} round in redirects: try again later or from another network.": ("TooManyRedirects",),
    "{host} cannot be reached safely ({why}): check this machine's clock, proxy and HF_ENDPOINT.": ("SSLError",),
    "{host} does not answer for {it} as the hub does: log in to this network, or correct HF_ENDPOINT.": STRANGE,
    "{host} answers {code} for a file that {it} lists: run again, or name another revision.": (404, 410, 416, 418, 451),
    "{host} cannot be reached and {it} is not wholly in the cache: connect and run again.": AWAY,
    "the disk is too full for {it}: free space, or set HF_HOME to another disk.": (*FULL, WORDS[2]),
    "{it} lists a file that cannot be kept ({why}): name another revision, or tell its owner.": UNFIT,
    "{it} cannot be kept ({why}): fix the permissions, or set HF_HOME to another folder.": SHUT,
    "{it} could not be fetched: {why}": ("Exception",),
}


def chain(error):
    """An error and what caused it, outermost first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def class_names(error):
    """Names of the classes in the chain of an error."""
    return {c.__name__ for e in chain(error) for c in type(e).__mro__}


def status(error):
    """HTTP status behind an error, or None."""
    answers = (getattr(e, "response", None) for e in chain(error))
    return next((int(a.status_code) for a in answers if a is not None), None)


def signs(error):
    """What an error is known by: its classes' names, its HTTP status, its error numbers' names, its words."""
    numbers = (errno.errorcode.get(getattr(e, "errno", None)) for e in chain(error))
    text = " ".join(map(str, chain(error)))
    return {*class_names(error), status(error), *numbers, *(w for w in WORDS if w in text)}


def passing(error):
    """Whether trying again may help: a busy server, or a line that broke after it had been there."""
    if status(error) is not None:
        return status(error) in BUSY
    return bool(signs(error) & {*BROKEN, "ReadTimeout", WORDS[1]})


def is_offline(error):
    """Whether an error means that the hub could not be reached or could not answer at all."""
    return status(error) in BUSY if status(error) is not None else bool(class_names(error) & {*AWAY, *STRANGE})


def sentence(error, repo_id, kind="model", revision=None):
    """The InputError that says in one sentence what went wrong with a repository and what to do."""
    if isinstance(error, InputError):
        return error
    borne = signs(error)
    said = next(said for said, known in TOLD.items() if borne & {*known})
    it, why = f"{kind} {repo_id!r}", first_line(error)
    return InputError(said.format(it=it, revision=revision, code=status(error), host=NEWS[0], why=why))


def first_line(error):
    """First line of an error's message, a very long one cut between words."""
    lines = str(error).strip().splitlines()
    return textwrap.shorten(lines[0] if lines else type(error).__name__, 400, placeholder=" ...")
