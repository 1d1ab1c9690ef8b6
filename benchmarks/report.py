"""The tables of benchmarks/README.md and the figure, from benchmarks/results/*.json."""

import json
import re
import sys
from pathlib import Path

from benchmarks.contenders import CONTENDERS, GIVES
from benchmarks.gpu_session import ended
from benchmarks.ranks import RESULTS, load, summary

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
    """What was measured and run on a GPU, from the results files alone; a rehearsal on a processor is none."""
    from benchmarks import gpu

    told = held(GPU.with_name("session.json"))
    found, steps = held(GPU), session_lines(told)
    if found and not found["device"].startswith("a processor"):
        step = told["steps"].get("benchmark") if steps else None
        if step and ended(step) == "failed":
            return "\n".join(["The benchmark failed, so the table that it left is not shown.", "", *steps])
        if step and (step["machine"]["device"], step.get("began")) != (found["device"], found.get("began")):
            return "\n".join([f"`gpu.json` is of {found['device']}, of another session than this:", "", *steps])
        before = ["The session of the steps below ran no benchmark; the table is of an earlier one.", ""]
        return "\n".join([*(before if steps and not step else []), gpu.table(found), *([""] if steps else []), *steps])
    if steps:
        return "\n".join(["The benchmark has left no results of a GPU: there is no `results/gpu.json`.", "", *steps])
    return (
        "Nothing was measured: there is no `results/gpu.json`. No CUDA line of this project has been run; its\n"
        "steps are rehearsed on a processor by the suite, whose times say nothing of a GPU."
    )


def held(path):
    return json.loads(path.read_text()) if path.is_file() else None


def session_lines(told):
    """How the steps of a session on a GPU ended, a line each."""
    if not told or told["small"]:
        return []
    lines = ["The steps of the session:", ""]
    for name in ("tests", "benchmark", "ladder"):
        step = told["steps"].get(name)
        if step is None:
            lines.append(f"* {name}: not run")
            continue
        tests, ladder = step.get("tests"), step.get("ladder")
        more = "; ".join(f"{tests[kind]} {kind}" for kind in ("passed", "failure", "error", "skipped")) if tests else ""
        if tests and (tests["not_ended"] or tests["not_begun"]):
            more += f"; {len(tests['not_ended'])} begun and not ended, {tests['not_begun']} not begun"
        if ladder:
            lost = ladder["not_finished"]
            more = f"{ladder['models']} models" + (f"; not finished: {', '.join(lost)}" if lost else "")
        where = f"{step['machine']['device']}, torch {step['machine']['torch']}"
        spent = f" after {step['seconds']:,.0f} s" if step["seconds"] else ""
        lines.append(f"* {name}: {ended(step)}{spent}, on {where}" + (f"; {more}" if more else ""))
    return lines


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
    for name in ("explore", "precision", "bootstrap", "distributions", "plan"):
        found = RESULTS.with_name(f"{name}.json")
        if found.exists():
            fill(name, json.loads(found.read_text())["table"])
    fill("gpu", gpu_text())


def main(argv=None):
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
