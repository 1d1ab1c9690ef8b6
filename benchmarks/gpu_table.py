"""What benchmarks/README.md shows of a results file of `benchmarks.gpu`: numbers, and whether each goal is met."""

import statistics

from benchmarks import heads

GOAL = 0.05  # at most so much longer than the forward pass with full logits
RESULT_WAITS = 1  # host waits beyond the body's: the results are looked at once, for NaN
GROWTH = 0.1  # of a token's logits: by less, memory above the body's is called independent of tokens x vocabulary


def number(value, form=",.0f", missing="not measured"):
    return missing if value is None else format(value, form)


def table(found):
    """What the README shows of a results file."""
    lines = [
        f"{found['device']}, torch {found['torch']}, {found['dtype']}; measured here, in 1e12 a second: operations of "
        f"products of 8,192 x 8,192 {number(found['rate'] and found['rate'] / 1e12)}, bytes copied "
        f"{number(found['copy_rate'] and found['copy_rate'] / 1e12, '.2f')}.",
        "",
        f"Goals: at most {GOAL:.0%} longer than the forward pass with full logits (fast); less memory than it (less); "
        f"at most {RESULT_WAITS} host wait more than the body alone, for the results (waits).",
        "",
        "| shape | batch | tok/s | over full logits (range) | fast | over the body | peak MB | full logits, peak MB | "
        "less | of the matrix rate | host waits (of the body) | waits |",
        "|" + "---|" * 12,
    ]
    for shape, about in found["shapes"].items():
        for c in about["cases"]:
            lines.append(f"| {shape.upper()} | {c['batch']} x {c['length']} | " + case_cells(c))
    if cases := [c for about in found["shapes"].values() for c in about["cases"] if "failed" not in c]:
        met = [(name, [verdicts(c)[name] for c in cases]) for name in ("fast", "less", "waits")]
        told = (f"{name} in {v.count(True)} of {len(v) - v.count(None)}" for name, v in met)
        lines += ["", f"Goals met: {', '.join(told)} batches where it was measured."]
    for shape, about in found["shapes"].items():
        lines += [*way_lines(shape, about), *growth_lines(shape, about)]
    for shape, about in found["heads"].items():
        lines += ["", *ways_lines(shape, about)] if "ways" in about else []
    if found["skipped"]:
        lines += ["", f"Not measured for want of time: {', '.join(found['skipped'])}."]
    if lost := unmeasured(found):
        lines += ["", f"Not measured, for want of time or since the run ended before: {'; '.join(lost)}."]
    if failed := failures(found):
        lines += ["", "Failed, each by itself:", "", *(f"* {where}: {why}" for where, why in failed.items())]
    return "\n".join(lines)


def unmeasured(found):
    """What was planned and never reached, in words."""
    planned, shapes = found.get("planned", {"shapes": [], "batches": [], "heads": []}), found["shapes"]
    lost = [shape.upper() for shape in planned["shapes"] if shape not in shapes and shape not in found["skipped"]]
    for shape, about in shapes.items():
        seen = {(c["batch"], c["length"]) for c in about["cases"]}
        lost += [f"{shape.upper()} at {b} x {n}" for b, n in planned["batches"] if (b, n) not in seen]
    heads_lost = [s for s in planned["heads"] if not found["heads"].get(s) and s in shapes]
    heads_lost += [s for s, about in found["heads"].items() if about.get("planned") and not about["ways"]]
    lost += [f"the head alone at the {shape.upper()} shape" for shape in heads_lost]
    for shape, about in found["heads"].items():
        ways = [f'"{way}"' for way in about.get("planned", ()) if way not in about["ways"]] if about.get("ways") else []
        lost += [f"the head alone at the {shape.upper()} shape by {', '.join(ways)}"] if ways else []
    return lost


def failures(found):
    """{what: why} of all parts that failed."""
    told = {name: why for name, why in found.get("failures", {}).items()}
    for kind in ("shapes", "heads"):
        for shape, about in found[kind].items():
            told |= {f"{shape.upper()}, {name}": why for name, why in about.get("failures", {}).items()}
    for shape, about in found["shapes"].items():
        for c in about["cases"]:
            where = f"{shape.upper()} at {c['batch']} x {c['length']}"
            told |= {f"{where}, {name}": why for name, why in c.get("failures", {}).items()}
    return told


def way_lines(shape, about):
    """How the engine had its scores, and how long whole batches take by sums of fewer passes."""
    cases = [c for c in about["cases"] if c.get("fewer")]
    if ways := sorted({c["way"] for c in cases if c["way"]}):
        yield ""
        yield f"{shape.upper()}: the engine's way to its scores is {', '.join(ways)}. Whole batches by other sums:"
    for name in heads.FEWER if ways else ():
        told = [(c, c["fewer"][name]) for c in cases if c["fewer"].get(name)]
        yield "" if name == next(iter(heads.FEWER)) else "  "
        yield f"* {name}: " + "; ".join(f"{o[0]:+.1%} at {c['batch']} x {c['length']}" for c, o in told)


def waited(c):
    """Host waits of the engine and of the body, both by torch's own count where there is one."""
    own = c.get("device_waits") is not None and c.get("body_device_waits") is not None
    return (c["device_waits"], c["body_device_waits"]) if own else (c.get("waits"), c.get("body_waits"))


def verdicts(c):
    """Whether each goal is met in one batch; None where it was not measured."""
    ours, body = waited(c)
    peaks = [c.get("peak_mb"), c.get("full_peak_mb")]
    less = None if None in peaks else peaks[0] < peaks[1]
    few = None if None in (ours, body) else ours - body <= RESULT_WAITS
    return {"fast": c["over"] and c["over"][0] <= GOAL, "less": less, "waits": few}


def growth_lines(shape, about):
    """Whether memory is independent of tokens x vocabulary, from the batches of fewest and most tokens."""
    cases = [c for c in about["cases"] if c.get("body_peak_mb") is not None and c.get("peak_mb") is not None]
    cases = sorted(cases, key=lambda c: c["batch"] * c["length"])
    tokens = [c["batch"] * c["length"] for c in cases]
    if not cases or tokens[0] == tokens[-1]:
        return
    above = [c["peak_mb"] - c["body_peak_mb"] for c in (cases[0], cases[-1])]
    grown, row = (above[1] - above[0]) * 2**20 / (tokens[-1] - tokens[0]), 2 * about["dims"][3]
    yield ""
    yield (
        f"{shape.upper()}: from {tokens[0]:,} to {tokens[-1]:,} tokens the engine's peak above the body's goes from "
        f"{above[0]:,.0f} to {above[1]:,.0f} MB, {grown / 1e3:,.1f} kB a token; a token's bfloat16 logits are "
        f"{row / 1e3:,.1f} kB. Independent of tokens x vocabulary (less than {GROWTH:.0%} of that): "
        f"{'yes' if grown < GROWTH * row else 'no'}."
    )


def case_cells(c):
    if "failed" in c:
        return f"{c['failed']}" + " |" * 10
    ours, body = waited(c)
    said = {name: {True: "yes", False: "no", None: "not measured"}[v] for name, v in verdicts(c).items()}
    spread = "not measured"
    if c["over"]:
        spread = "{:+.1%} ({:+.1%} to {:+.1%}) of ".format(*c["over"]) + str(len(c["seconds"]))
    return (
        f"{c['tok_s']:,.0f} | {spread} | {said['fast']} | {number(c['over_body'] and c['over_body'][0], '+.1%')} | "
        f"{number(c.get('peak_mb'))} | {number(c.get('full_peak_mb'))} | {said['less']} | "
        f"{number(c['rate_share'], '.0%')} | {number(ours)} ({number(body)}) | {said['waits']} |"
    )


def ways_lines(shape, about):
    yield (
        f"The head alone at the {shape.upper()} shape, {about['rows']:,} rows against {about['vocab']:,} words, d = "
        f"{about['width']:,}; passes are bytes that operations read and write, with the copies that they are known to "
        "make within themselves on CUDA, in units of the float32 scores."
    )
    yield ""
    yield "| way | µs a token (range) | passes | ranks that differ | logprob, nats |"
    yield "|---|---|---|---|---|"
    for name, w in about["ways"].items():
        if "failed" in w:
            yield f"| {name} | {w['failed'].replace('|', '/')} | | | |"
            continue
        us = [1e6 * s / about["rows"] for s in w["seconds"]]
        differ = f"{w['moved']} | {w['logprob']:.1e}" if "moved" in w else " | "
        spread = f"{statistics.median(us):.2f} ({min(us):.2f}-{max(us):.2f})"
        yield f"| {name} | {spread} | {number(w['passes'], '.1f', 'not counted')} | {differ} |"
