"""What a session with a GPU leaves: the record of its steps, written and read, and the files of their results."""

import json
import shutil
import signal
import time
from collections import Counter
from contextlib import suppress

from training.children import INCOMPLETE

from rbplib.families import InputError, atomic_path, write_text

FAILED = {"tests": 10, "benchmark": 20, "ladder": 40}
MOST_BYTES, MOST_EACH, MOST_FILES = 60_000_000, 1 << 24, 8  # of all results, and bytes of one file
OPTIONAL = ("ladder_weights.safetensors", "gpu_profile.txt", "ladder_checkpoints.npz")  # left out first, in this order
OUTCOMES = "outcomes.jsonl"  # of the tests while they run
KINDS = ("passed", "failure", "error", "skipped")
RESULTS = {"tests": ("tests.json",), "benchmark": ("gpu.json", "gpu_profile.txt")}
RESULTS["ladder"] = ("ladder.json", "ladder.counts", "ladder_checkpoints.npz", "ladder_weights.safetensors")


def outcomes(path):
    """What a file of outcomes says, as tests.json: each with its reason and time, and what did not end; or None."""
    found, begun, collected = {}, [], None
    if not path.is_file():
        return None
    for line in path.read_text().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:  # the line that was being written when the tests were stopped
            continue
        collected = entry.get("collected", collected)
        begun += [entry["begun"]] if "begun" in entry else []
        if "test" in entry and found.get(entry["test"], {}).get("outcome") not in ("failure", "error"):
            found[entry["test"]] = entry
    tests = list(found.values())
    tally = {kind: sum(t["outcome"] == kind for t in tests) for kind in KINDS}
    tally |= {"collected": collected, "not_ended": [name for name in begun if name not in found]}
    tally |= {"failed": {t["test"]: reason(t.get("said", "")) for t in tests if t["outcome"] in ("failure", "error")}}
    tally |= {"why_skipped": dict(Counter(t.get("said", "") for t in tests if t["outcome"] == "skipped"))}
    return tally | {"not_begun": None if collected is None else collected - len(set(begun)), "tests": tests}


def reason(said, most=200):
    """The line of a test's failure that says what was wrong: the first that pytest marks as the error, or the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["it says nothing"]
    return next((line[1:].strip() for line in lines if line.startswith("E ")), lines[-1])[:most]


def told_tests(out):
    """The tally of tests.json, which is made of the file of outcomes that it replaces."""
    if tally := outcomes(out / OUTCOMES):
        write_text(out / "tests.json", json.dumps(tally, indent=1) + "\n")
        (out / OUTCOMES).unlink()
        return {kind: value for kind, value in tally.items() if kind != "tests"}
    return None


def told_ladder(out):
    """How much of the ladder is there, from its own record."""
    path = out / "ladder.json"
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    told = {"models": len(found["models"]), "not_finished": found["not_finished"], "note": found["note"]}
    return told | {"plan": found.get("plan", {}).get("words", []), "failed": found.get("failed", {})}


def ended(step):
    """How a step ended, in words."""
    if step.get("no_end"):
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(step["began"]))
        return f"began at {when}, did not end as far as is recorded (killed, or the machine was lost, or its disk full)"
    if "stopped_by" in step:
        return f"stopped by {step['stopped_by']}"
    if step["stopped_by_the_clock"]:
        return "stopped by the clock"
    return {0: "done", INCOMPLETE: "not finished"}.get(step["status"], "failed")


def set_aside(out, name, copy):
    """Move what an earlier call left of a step beside the folder: whatever is there afterwards is of this call."""
    for file in RESULTS[name]:
        if (out / file).is_file():
            (out / file).replace(out.with_name(f"{out.name}.before-{file}"))
        no_copy(copy, file)


def no_copy(copy, file):
    """Take a file out of the folder of copies, if there is one."""
    with suppress(OSError):
        (copy / file).unlink(missing_ok=True) if copy else None


def copy_results(out, copy):
    """Copy what has changed of the results to another folder; returns why what stays where it is could not be."""
    wrong = None
    if not (out / OUTCOMES).is_file():
        no_copy(copy, OUTCOMES)
    for path in shown(out) if copy else ():
        try:
            to = copy / path.name
            if to.is_file() and to.stat().st_mtime_ns == path.stat().st_mtime_ns:
                continue
            with atomic_path(to) as temporary:
                shutil.copy2(path, temporary)
        except (OSError, InputError) as error:
            wrong = error
    return wrong


def shown(out):
    """The files of a folder but the hidden ones, which are locks and files that are being written."""
    return [path for path in out.iterdir() if path.is_file() and not path.name.startswith(".")]


def keep_within(out, copy=None):
    """Leave out what is beyond MOST_BYTES, MOST_EACH or MOST_FILES: names of the files left out. Files of others do not
    count."""
    left, ours = [], {"session.json", *(name for names in RESULTS.values() for name in names)}
    for name in OPTIONAL:
        sizes = {path.name: path.stat().st_size for path in shown(out) if path.name in ours}
        beyond = len(sizes) > MOST_FILES or sum(sizes.values()) > MOST_BYTES or sizes.get(name, 0) > MOST_EACH
        if name in sizes and beyond:
            (out / name).rename(out.with_name(f"{out.name}.left-{name}"))
            no_copy(copy, name)
            left.append(name)
    return left


def recorded(path):
    """(steps, whether of a rehearsal) of a session.json; a step that began and did not end in it is among them, with
    what it had written."""
    read = {"tests": lambda: outcomes(path.with_name(OUTCOMES)), "ladder": lambda: told_ladder(path.parent)}
    try:
        found = json.loads(path.read_text())
        steps, small = found["steps"], found["small"]
        if (name := found.get("running")) in FAILED:  # killed, or lost with its machine
            steps[name] = {"status": -signal.SIGKILL, "seconds": 0.0, "no_end": True, "machine": found["machine"]}
            steps[name] |= {"stopped_by_the_clock": False, "output": [], "command": [], "began": found["began"]}
            steps[name] |= {name: read[name]()} if name in read else {}
        for step in steps.values():
            step["seconds"], step["machine"]["device"], step["machine"]["torch"], ended(step)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise InputError(f"{path} is not the record of a session, or a torn one: move it away.") from None
    return steps, small


def earlier(out, small, say=lambda words: None):
    """The steps that an earlier call left in session.json; of one without an end this is said."""
    path = out / "session.json"
    if not path.is_file():
        return {}
    steps, was = recorded(path)
    if was != small:
        kinds = ("a rehearsal", "a session on a GPU")
        raise InputError(f"{out} holds {kinds[not was]}, and this is {kinds[not small]}: name another --out.")
    for name, step in steps.items():
        say(f"{name}: {ended(step)}; what it had written is kept") if step.get("no_end") else None
    return steps


class Record:
    """session.json: written after everything that happens, and where it cannot be written the session goes on."""

    def __init__(self, out, copy, **about):
        self.out, self.copy, self.told, self.wrong, self.not_copied = out, copy, about, None, None

    def keep(self, say, **more):
        status = sum(FAILED[n] for n, step in self.told["steps"].items() if step["status"])
        self.last, before, self.wrong = self.told | {"status": status} | more, self.wrong, None
        try:
            write_text(self.out / "session.json", json.dumps(self.last, indent=1) + "\n")
        except (OSError, InputError) as error:
            self.wrong = error
            say(f"session.json is not up to date: {error}") if not before else None
        self.not_copied = copy_results(self.out, self.copy)

    def lost(self):
        """Sentences of what could not be written, and of what session.json would have said; none where all was."""
        if self.not_copied:
            yield f"--copy-to {self.copy}: not all results of {self.out} could be copied there: {self.not_copied}"
        for name, step in self.told["steps"].items():
            if "lost" in step:
                yield f"{name}: its results are not whole: {step['lost']}"
        if self.wrong:
            brief = {n: {k: v for k, v in s.items() if k not in ("output", "command")}
                     for n, s in self.told["steps"].items()}  # fmt: skip
            yield f"{self.wrong} It would say: {json.dumps(self.last | {'steps': brief})}"


def told_of(out, name):
    """What a step's own results say of it; nothing where they cannot be read or written."""
    tell = {"tests": told_tests, "ladder": told_ladder}.get(name)
    try:
        return {name: tell(out)} if tell else {}
    except (OSError, InputError) as error:
        return {name: None, "lost": str(error)}
