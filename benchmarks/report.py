"""The tables of benchmarks/README.md and the figure, from benchmarks/results/*.json."""

import json
import re
import sys
from pathlib import Path

from benchmarks.contenders import CONTENDERS, GIVES
from benchmarks.gpu_record import FAILED, KINDS, ended, recorded
from benchmarks.ranks import RESULTS, load, summary
from rbplib.families import InputError

GOALS = {  # times faster than a contender that this library set out to be; and peak memory, MB above the model
    ("14m", 4): {"full logits": 1.0, "lm-evaluation-harness": 2, "the paper's algorithm": 10, "minicons": 25},
    ("14m", 16): {"full logits": 1.2, "lm-evaluation-harness": 2, "the paper's algorithm": 15, "minicons": 25},
    ("70m", 4): {"full logits": 1.0, "lm-evaluation-harness": 1.25, "the paper's algorithm": 3, "minicons": 8},
    ("70m", 16): {"full logits": 1.0, "lm-evaluation-harness": 1.5, "the paper's algorithm": 3, "minicons": 8},
}
MEMORY_GOALS = {4: 150, 16: 300}
HERE = Path(__file__).parent
README = HERE / "README.md"
GPU = HERE / "results" / "gpu.json"


def cell(run, ours):
    """Speed, peak memory, and how many times faster this library is."""
    if run is None:
        return "not measured"
    memory = f", {run['peak_mb']:,.0f} MB" if "peak_mb" in run else ""
    if run["contender"] == "rbplib":
        return f"**{ours:,.0f}**{memory}" if ours else f"not measured{memory}"
    if "pairs" not in run:
        return "not measured"
    s = summary(run)
    return f"{s['tok_s']:,.0f}{memory}; {s['ratio']:.2f}x ({s['low']:.2f}-{s['high']:.2f})"


def table(whole):
    runs = {(r["shape"], r["batch"], r["contender"]): r for r in whole["runs"]}
    columns = sorted({(r["shape"], r["batch"]) for r in whole["runs"]})
    lines = ["| | gives | " + " | ".join(f"{s.upper()}, batch {b}" for s, b in columns) + " |"]
    lines.append("|" + "---|" * (len(columns) + 2))
    for name in sorted(CONTENDERS, key=list(GIVES).index):
        cells = []
        for shape, batch in columns:
            timed = [r for r in runs.values() if (r["shape"], r["batch"]) == (shape, batch) and "pairs" in r]
            paired = next((r for r in timed if r["contender"] == "full logits"), timed[0] if timed else None)
            cells.append(cell(runs.get((shape, batch, name)), summary(paired)["ours_tok_s"] if paired else 0))
        lines.append(f"| {name} | {GIVES[name]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def goals(whole):
    """What was set out to be reached, and what was."""
    runs = {(r["shape"], r["batch"], r["contender"]): r for r in whole["runs"]}
    lines = ["| shape, batch | beside | goal | reached: median (range) of pairs | |", "|---|---|---|---|---|"]
    for (shape, batch), wanted in GOALS.items():
        where = f"{shape.upper()}, {batch}"
        for name, goal in wanted.items():
            run = runs.get((shape, batch, name), {})
            if "pairs" not in run:
                lines.append(f"| {where} | {name} | {goal:g}x | not measured | |")
                continue
            s = summary(run)
            verdict = "yes" if s["ratio"] >= goal else "no"
            found = f"{s['ratio']:.2f}x ({s['low']:.2f} to {s['high']:.2f}) of {s['pairs']}"
            lines.append(f"| {where} | {name} | {goal:g}x | {found} | {verdict} |")
        peak = runs.get((shape, batch, "rbplib"), {}).get("peak_mb")
        if peak is not None:
            most = MEMORY_GOALS[batch]
            verdict = "yes" if peak <= most else "no"
            lines.append(f"| {where} | memory above the model | {most} MB | {peak:.0f} MB | {verdict} |")
    return "\n".join(lines)


def fill(name, text):
    """Put a table between its two marks in the README."""
    page = README.read_text()
    mark = rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)"
    if not re.search(mark, page, re.S):
        raise SystemExit(f"benchmarks/README.md has no place for the table {name!r}")
    README.write_text(re.sub(mark, lambda m: m[1] + text + "\n" + m[2], page, flags=re.S))


def gpu_text():
    """What was measured and run on a GPU, from the results files alone; a rehearsal on a processor is none.

    Raises InputError: a file is torn, or another."""
    found, steps = benchmark_results(), session_steps()
    parts = ["\n".join(session_lines(steps))] if steps else []
    if found:
        about, shown = whose(found, steps.get("benchmark")) if steps else ("", True)
        parts += [about, found["table"] if shown else ""]
    elif steps:
        parts.append("The benchmark has left no results of a GPU.")
    else:
        parts.append(
            "Nothing was measured: there is no `results/gpu.json` of a GPU.\n"
            "No CUDA line of this project has been run; its steps are rehearsed on a processor by the suite, whose\n"
            "times say nothing of a GPU."
        )
    return "\n\n".join(filter(None, parts))


def whose(found, step):
    """(a sentence on whether gpu.json is of the session's benchmark, whether its table is shown)."""
    if step is None:
        return "The session ran no benchmark; the table is of another run.", True
    if found["device"] != step["machine"]["device"] or found.get("began") not in (None, step.get("began")):
        return f"`gpu.json` is of {found['device']}, of another session than this, and is not shown.", False
    if ended(step) == "failed":
        return "The benchmark failed, so the table that it left is not shown.", False
    if found.get("began") is None:
        return "`gpu.json` does not say when it was begun: the table may be of another run than this session's.", True
    return ("The benchmark did not end; what it had written is below." if step.get("no_end") else ""), True


def benchmark_results():
    """gpu.json of a GPU; None where there is none."""
    if not GPU.is_file():
        return None
    try:
        found = json.loads(GPU.read_text())
        return None if f"{found['device']}{found['table']}".startswith("a processor") else found
    except (OSError, ValueError, LookupError, TypeError):
        raise InputError(f"{GPU} holds no whole results of the benchmark: copy it again, or move it away.") from None


def session_steps():
    """The steps of a session on a GPU; none without one."""
    path = GPU.with_name("session.json")
    steps, small = recorded(path) if path.is_file() else ({}, True)
    return {} if small else steps


def session_lines(steps):
    """How the steps of a session on a GPU ended, a line each."""
    lines = ["The steps of the session:", ""]
    for name in FAILED:
        step = steps.get(name)
        if step is None:
            lines.append(f"* {name}: not run")
            continue
        tests, ladder = step.get("tests"), step.get("ladder")
        more = "; ".join(f"{tests[kind]} {kind}" for kind in KINDS) if tests else ""
        if tests and (tests["not_ended"] or tests["not_begun"]):
            more += f"; {len(tests['not_ended'])} begun and not ended, {tests['not_begun']} not begun"
        if ladder:
            lost = ladder["not_finished"]
            more = f"{ladder['models']} models" + (f"; not finished: {', '.join(lost)}" if lost else "")
        more = f"what it had written: {more}" if more and step.get("no_end") else more
        where = f"{step['machine']['device']}, torch {step['machine']['torch']}"
        spent = f" after {step['seconds']:,.0f} s" if step["seconds"] else ""
        lines.append(f"* {name}: {ended(step)}{spent}, on {where}" + (f"; {more}" if more else ""))
        lines += [
            f"    * {' '.join(words.split())}" for words in [*told_of_tests(tests or {}), *told_of_plan(ladder or {})]
        ]
    return lines


def told_of_tests(tests):
    """Which tests failed and which did not end, and why others were skipped."""
    yield from (f"failed: `{name}`: {why}" for name, why in tests.get("failed", {}).items())
    yield from (f"begun and not ended: `{name}`" for name in tests.get("not_ended", ()))
    yield from (f"skipped, {count}: {why}" for why, count in tests.get("why_skipped", {}).items())


def told_of_plan(ladder):
    """What the ladder was trained on, what its plan left out, and what failed on the way."""
    yield from filter(None, [ladder.get("note")])
    yield from (f"by its plan, {words}" for words in ladder.get("plan", ()))
    yield from (f"failed: {what}: {why}" for what, why in ladder.get("failed", {}).items())


def figure(whole, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "rbplib"
    timed = [r for r in whole["runs"] if "pairs" in r]
    columns = sorted({(r["shape"], r["batch"]) for r in timed})
    order = [n for n in CONTENDERS if n not in ("rbplib", "body only")]
    fig, axes = plt.subplots(1, len(columns), figsize=(3.1 * len(columns), 3.2), sharey=True, squeeze=False)
    for ax, (shape, batch) in zip(axes[0], columns, strict=True):
        for place, name in enumerate(order):
            wanted = (shape, batch, name)
            run = next((r for r in timed if (r["shape"], r["batch"], r["contender"]) == wanted), None)
            if run is None:
                ax.text(1.1, place, "not measured", va="center", fontsize=7, color="0.5")
                continue
            s = summary(run)
            ax.barh(place, s["ratio"] - 1, left=1, color="#4477aa", height=0.6)
            ax.plot([s["low"], s["high"]], [place, place], color="0.1", linewidth=1.5)
            ax.text(max(s["high"], 1.02) * 1.08, place, f"{s['ratio']:.1f}x", va="center", fontsize=8)
        ax.axvline(1, color="0.3", linewidth=0.8)
        ax.set(xscale="log", xlim=(0.6, 150), title=f"{shape.upper()} shape, batch {batch}")
        ax.set_yticks(range(len(order)), order)
        ax.set_xlabel("times faster: rbplib", fontsize=8)
        ax.tick_params(labelsize=8)
    axes[0, 0].invert_yaxis()
    fig.tight_layout()
    fig.savefig(path, metadata={"Date": None})
    plt.close(fig)


def write():
    whole = load()
    if any("pairs" in r for r in whole["runs"]):
        fill("ranks", table(whole))
        fill("goals", goals(whole))
        figure(whole, HERE / "results" / "ranks.svg")
    for name in ("explore", "precision", "bootstrap", "distributions", "plan", "memory"):
        found = RESULTS.with_name(f"{name}.json")
        if found.exists():
            fill(name, json.loads(found.read_text())["table"])
    fill("gpu", gpu_text())


def main(argv=None):
    try:
        write()
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
