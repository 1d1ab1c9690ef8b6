"""What went wrong with the hub, told in one sentence each, and whether asking again may help.

Errors are known by the names of their classes and by their HTTP status, so nothing of the network is imported here.
"""

from rbplib.settings import InputError

BUSY = (408, 429, 500, 502, 503, 504)  # a server that may answer later


def chain(error):
    """An error and what caused it, outermost first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def status(error):
    """HTTP status behind an error, or None."""
    for e in chain(error):
        if (code := getattr(getattr(e, "response", None), "status_code", None)) is not None:
            return int(code)
    return None


def passing(error):
    """Whether trying again may help: a busy server, or a line that broke after it had been there."""
    if status(error) is not None:
        return status(error) in BUSY
    names = {type(e).__name__ for e in chain(error)}
    broken = {"RemoteProtocolError", "ReadError", "ReadTimeout", "Short"}
    return bool(names & broken) or any("Consistency check failed" in str(e) for e in chain(error))


def is_offline(error):
    """Whether an error means that the hub could not be reached or could not answer at all."""
    if status(error) is not None:
        return status(error) in BUSY
    names = {c.__name__ for e in chain(error) for c in type(e).__mro__}
    return bool(
        names & {"OfflineModeIsEnabled", "ConnectError", "ConnectTimeout", "TimeoutException", "NetworkError"}
        or names & {"TransportError", "ConnectionError", "LocalEntryNotFoundError", "TimeoutError"}
    )


def sentence(error, repo_id, kind="model", revision=None):
    """The InputError that says in one sentence what went wrong with a repository and what to do."""
    if isinstance(error, InputError):
        return error
    names = {c.__name__ for e in chain(error) for c in type(e).__mro__}
    code = status(error)
    if "GatedRepoError" in names or code == 403:
        return InputError(
            f"{kind} {repo_id!r} is gated: accept its terms on its page of the hub, log in with `hf auth login`, "
            "and run again."
        )
    if "RevisionNotFoundError" in names:
        return InputError(f"{kind} {repo_id!r} has no revision {revision!r}: check the name of the branch or commit.")
    if "RepositoryNotFoundError" in names or code == 401:
        return InputError(
            f"{kind} {repo_id!r} does not exist on the hub, or is private: check its spelling, "
            "or log in with `hf auth login`."
        )
    if "EntryNotFoundError" in names and "LocalEntryNotFoundError" not in names:
        return InputError(f"{kind} {repo_id!r} lacks a file that was asked for: {first_line(error)}")
    if code in BUSY:
        return InputError(f"the hub answers {code} for {kind} {repo_id!r}: try again in a few minutes.")
    if is_offline(error):
        return InputError(
            f"the hub cannot be reached and {kind} {repo_id!r} is not wholly in the cache: connect and run again."
        )
    if passing(error):
        return InputError(f"the download of {kind} {repo_id!r} kept breaking off: run again, and it goes on.")
    if any(isinstance(e, OSError) and e.errno == 28 for e in chain(error)) or "free disk space" in str(error):
        return InputError(f"the disk is too full for {kind} {repo_id!r}: free space, or set HF_HOME to another disk.")
    return InputError(f"{kind} {repo_id!r} could not be fetched: {first_line(error)}")


def first_line(error):
    """First line of an error's message, cut to a readable length."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]
