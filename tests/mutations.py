"""Would the tests notice? Small changes to the core, made one at a time in a copy: python -m tests.mutations [WORD ...]

Each is one that a slip could make; the tests of its own room are run until one fails. A WORD picks the changes whose
file holds it. What no test finds is printed, and ends the run with exit code 1 where it is more than one in twenty.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = {  # the file that is changed, and the tests that ought to notice
    "ranks/engine": "ranks/test_engine.py models/test_heads.py ranks/test_measure.py",
    "ranks/tiles": "ranks/test_engine.py",
    "text/windows": "text/test_windows.py",
    "ranks/counts": "laws/test_formulas.py ranks/test_table.py laws/test_curve.py laws/test_runs.py",
    "ranks/stored": "laws/test_formulas.py ranks/test_table.py ranks/test_identity.py",
    "ranks/identity": "ranks/test_identity.py",
    "ranks/measure": "ranks/test_measure.py",
    "ranks/rules": "ranks/test_sharing.py",
    "models/sizes": "models/test_sizes.py",
    "laws/curve": "laws/test_curve.py pages/test_figures_numbers.py",
    "laws/losses": "laws/test_losses.py laws/test_bootstrap.py laws/test_law.py laws/test_formulas.py",
    "laws/bootstrap": "laws/test_formulas.py laws/test_bootstrap.py laws/test_law.py laws/test_reference.py",
    "laws/law": "laws/test_formulas.py laws/test_law.py laws/test_reference.py laws/test_noise.py",
    "laws/estimators": "laws/test_formulas.py laws/test_law.py laws/test_reference.py",
    "laws/uncertainty": "laws/test_formulas.py laws/test_law.py laws/test_noise.py laws/test_reference.py",
    "laws/runs": "laws/test_formulas.py laws/test_runs.py laws/test_runs_formulas.py",
    "laws/extrapolation": "laws/test_extrapolation.py",
    "distributions/lognormal": "distributions",
    "distributions/fit": "distributions",
}
CHANGES = [  # (file, what stands there once, what comes in its place)
    ("ranks/engine", "flatten()[places + 1]", "flatten()[places]"),
    ("ranks/engine", "final_hidden(model, ids[part])\n", "final_hidden(model, ids[part].flip(0))\n"),
    ("ranks/engine", "flatten(0, 1)[places.to(", "flatten(0, 1)[(places + 1).to("),
    ("ranks/engine", "if model.training:", "if False:"),
    ("ranks/engine", "(ids < 0) | (ids >= size)", "(ids < 0) | (ids > size)"),
    ("ranks/tiles", "torch.gt(tile, own, out=flags)", "torch.ge(tile, own, out=flags)"),
    ("ranks/tiles", "torch.eq(tile, own, out=flags)", "torch.le(tile, own, out=flags)"),
    ("ranks/tiles", "tile.sub_(own).mul_(LOG2_E).exp2_()", "tile.sub_(own).exp2_()"),
    ("ranks/tiles", "(-total.log()).float()", "(-total.log2()).float()"),
    ("ranks/tiles", "torch.where(own == top, -ties[:, None]", "torch.where(own == top, 0 * ties[:, None]"),
    (
        "ranks/tiles",
        "zip(starts, [*starts[1:], size], strict=True)",
        "zip(starts, [*starts[1:], size - 1], strict=True)",
    ),
    ("text/windows", "scored + max(1, length // 2), n)", "scored + max(1, length // 3), n)"),
    ("text/windows", "start = max(0, stop - length)", "start = max(0, stop - length + 1)"),
    ("text/windows", "out, scored = [(0, min(n, length), 1)]", "out, scored = [(0, min(n, length), 0)]"),
    (
        "text/windows",
        "index[~np.isin(window.ids[index], list(special))]",
        "index[~np.isin(window.ids[index - 1], list(special))]",
    ),
    ("text/windows", "* (len(out[-1]) + 1) > batch_tokens", "* len(out[-1]) > batch_tokens"),
    (
        "ranks/counts",
        'greater + (ties if definition == "greater+ties" else 1)',
        'greater + (1 if definition == "greater+ties" else ties)',
    ),
    ("ranks/counts", "return greater + (ties + 1) / 2", "return greater + ties / 2"),
    (
        "ranks/counts",
        'column = np.searchsorted(ks, part.rank(definition), side="left")',
        'column = np.searchsorted(ks, part.rank(definition), side="right")',
    ),
    ("ranks/counts", "np.maximum(length - N + 1, 0)", "np.maximum(length - N, 0)"),
    ("ranks/counts", "correction = (len(seen) - 1) / (2 * n)", "correction = len(seen) / (2 * n)"),
    ("ranks/counts", "same = run[lag:] == run[:-lag]", "same = run[lag:] >= run[:-lag]"),
    ("ranks/counts", "min(LONGEST, int(middle) // 2)", "min(LONGEST, int(middle))"),
    ("ranks/stored", "(np.diff(self.position) == 1)", "(np.diff(self.position) >= 1)"),
    ("ranks/stored", "(np.diff(self.document) == 0) &", "(np.diff(self.document) >= 0) & (np.diff(self.token) > 0) &"),
    (
        "ranks/stored",
        'last = np.searchsorted(rows["document"], rows["document"][-1])',
        'last = len(rows["document"]) - 1',
    ),
    ("ranks/stored", '"ties is below 1": out["ties"] >= 1', '"ties is below 1": out["ties"] >= 0'),
    ("ranks/stored", 'if sha != table.record["columns_sha256"]:', "if False:"),
    ("ranks/identity", '("model_digest",) if "model_digest" in record else', '() if "model_digest" in record else'),
    ("ranks/identity", '"requested_dtype": dtype or model.dtype,', '"requested_dtype": "auto",'),
    ("ranks/measure", "PART_TOKENS = 65_536", "PART_TOKENS = 0"),
    ("ranks/measure", "+ column + 1,", "+ column,"),
    ("ranks/rules", "nll >= log_rank - 1e-3", "nll >= log_rank - 1e3"),
    (
        "models/sizes",
        "if isinstance(module, nn.Embedding) and not any(",
        "if isinstance(module, nn.Embedding) and any(",
    ),
    (
        "models/sizes",
        "vocab = config.vocab_size if head is None else head.weight.shape[0]",
        "vocab = config.vocab_size + 1",
    ),
    ("models/sizes", "max(0, len(p) - chosen) // len(p)", "max(0, len(p) - chosen + 1) // len(p)"),
    (
        "models/sizes",
        "(model.get_input_embeddings(), head) if m is not None]",
        "(model.get_input_embeddings(),) if m is not None]",
    ),
    (
        "laws/curve",
        "return self.hits.sum(0) / self.totals.sum()",
        "return (self.hits / self.totals[:, None, None]).mean(0)",
    ),
    ("laws/curve", "return self.totals.sum() - self.hits.sum(0)", "return self.totals.sum() - self.hits.sum(0) + 1"),
    ("laws/curve", "if k < 1 or k > vocab_size:", "if k < 1 or k > vocab_size + 1:"),
    (
        "laws/curve",
        "return self.nll.sum(0) / self.totals.sum()",
        "return self.nll.sum(0) / self.totals.sum() / np.log(2)",
    ),
    ("laws/losses", "((a.sum(0) - a)", "((a.sum(0) - 0.5 * a)"),
    ("laws/losses", "spare = sum(len(g) - 1 for g in groups)", "spare = sum(len(g) for g in groups)"),
    ("laws/losses", "((g - g.mean()) ** 2).sum()", "(g**2).sum()"),
    ("laws/losses", "return replace(self, source=None, repeats=None)", "return self"),
    ("laws/losses", "text = (len(left) - 1) *", "text = len(left) / 2 *"),
    (
        "laws/bootstrap",
        "drawn = generator.integers(0, n_documents, (size, n_documents))",
        "drawn = np.sort(generator.integers(0, max(1, n_documents - 1), (size, n_documents)))",
    ),
    ("laws/bootstrap", "np.diff(source[order], prepend=-1)", "np.diff(source, prepend=-1)"),
    ("laws/bootstrap", "return slope, mean - slope * x.mean(), r2", "return slope, mean + slope * x.mean(), r2"),
    (
        "laws/bootstrap",
        'scatter = np.einsum("...m,...m->...", y, y) - len(x) * mean**2',
        'scatter = np.einsum("...m,...m->...", y, y)',
    ),
    ("laws/bootstrap", "np.tile([[(1 - level) / 2]", "np.tile([[1 - level]"),
    ("laws/bootstrap", "6 * spread**1.5", "spread**1.5"),
    (
        "laws/law",
        "return self.y + np.array([[-1.0], [1.0]]) * np.hypot(self.token_band - self.y, wider)",
        "return self.y + np.array([[-1.0], [1.0]]) * np.hypot(self.token_band - self.y, 2 * wider)",
    ),
    ("laws/law", "away = np.abs(np.expm1(self.y - self.fitted))", "away = np.abs(self.y - self.fitted) / 2"),
    ("laws/estimators", "return np.stack([-slope, level], axis=-1)", "return np.stack([slope, level], axis=-1)"),
    ("laws/estimators", "np.maximum(floor, 0.0), 0.0)", "floor, 0.0)"),
    ("laws/estimators", "rate = np.exp(eta - np.exp(eta))", "rate = np.exp(eta)"),
    (
        "laws/estimators",
        "return total * rate**2 * np.exp(-rate) / -np.expm1(-rate)",
        "return total * rate * np.exp(-rate) / -np.expm1(-rate)",
    ),
    (
        "laws/estimators",
        "np.column_stack([_jacobian_line(params, x), (x - centre) ** 2])",
        "np.column_stack([_jacobian_line(params, x), x**2])",
    ),
    ("laws/uncertainty", "half = stdtrit(spare, (1 + level) / 2) * sd", "half = stdtrit(spare, level) * sd"),
    ("laws/uncertainty", "q * (d - spare) / (spare * (d - 1))", "q * (d - spare) / (spare * d * 2)"),
    ("laws/uncertainty", "fdtrc(spare, d - spare,", "fdtrc(spare, d - 1,"),
    ("laws/uncertainty", "size**2 / square, size /", "size**2 / square, 2 * size /"),
    ("laws/uncertainty", "text = max(noise - shared, 0.0)", "text = noise"),
    ("laws/uncertainty", "rest = residuals - jacobian @ shift", "rest = residuals"),
    ("laws/uncertainty", '"saturated": misses.min() == 0', '"saturated": misses.max() == 0'),
    (
        "laws/runs",
        "between = (n * (sums / n - p) ** 2).sum() / (groups - 1)",
        "between = (n * (sums / n - p) ** 2).sum() / groups",
    ),
    ("laws/runs", "(N - 1) * np.log(again)", "N * np.log(again)"),
    ("laws/runs", "total = 1 / icc - 1", "total = 1 / icc"),
    ("laws/runs", "N * np.log10(sums[:, 0] / sums[:, 1])", "np.log10(sums[:, 0] / sums[:, 1])"),
    ("distributions/lognormal", "Natural(-mu / sigma**2, 0.5 / sigma**2)", "Natural(-mu / sigma**2, 1 / sigma**2)"),
    (
        "distributions/lognormal",
        "log_z(lam, beta) + (1 + lam) * first + beta * second",
        "log_z(lam, beta) + lam * first + beta * second",
    ),
    ("distributions/lognormal", "np.r_[np.ones(K - int(start)), EDGE]", "np.r_[np.ones(K - int(start)), 0 * EDGE]"),
]


def copied(place):
    """The checkout without what a run makes, where it may be changed."""
    made = shutil.ignore_patterns(
        ".git", ".venv", "results", "_build", "_executed", "logs", ".snakemake", "__pycache__", "data"
    )
    return Path(shutil.copytree(ROOT, place / "tree", ignore=made, symlinks=True))


def found(tree, file, old, new):
    """Whether a test fails once `new` stands for `old`."""
    path = tree / "rbplib" / f"{file}.py"
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise SystemExit(f"{file}.py holds {old!r} {text.count(old)} times: a change is made where it stands once.")
    path.write_text(text.replace(old, new), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        *(f"tests/{t}" for t in TESTS[file].split()),
    ]
    own = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, cwd=tree, env=own, capture_output=True, text=True, timeout=600)
    finally:
        path.write_text(text, encoding="utf-8")
    if done.returncode not in (0, 1):
        raise SystemExit(f"the tests of {file} could not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 1


def main(words):
    missed, chosen = [], [c for c in CHANGES if not words or any(w in c[0] for w in words)]
    with tempfile.TemporaryDirectory() as place:
        tree = copied(Path(place))
        for number, (file, old, new) in enumerate(chosen, start=1):
            start = time.monotonic()
            seen = found(tree, file, old, new)
            missed += [] if seen else [(file, old, new)]
            print(
                f"{number:>3} {'found ' if seen else 'MISSED'} {time.monotonic() - start:>5.0f} s  {file}: {new}",
                flush=True,
            )
    print(
        f"{len(chosen)} changes, {len(chosen) - len(missed)} found",
        *(f"{f}: {old} -> {new}" for f, old, new in missed),
        sep="\n",
    )
    return len(missed) > len(chosen) / 20


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
