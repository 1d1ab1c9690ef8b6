"""Exercises: solutions run, print what they say, and say no number that they do not print; fields know the answer."""

import doctest
import json
import re
import shutil
import subprocess
from math import log
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm, t

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "book" / "exercises.md", *sorted((ROOT / "book" / "derivations").glob("*.md"))]
BLOCK = r"^(`{3,})\{%s\} (.+?)\n(.*?)^\1$"
CODE = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
FIELD = re.compile(r"\{check\}`(.+?)`")
NUMBER = re.compile(r"(?<![\w.{])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def blocks(kind):
    """[(what stands behind the directive's name, its body)] of all pages."""
    pattern = re.compile(BLOCK % kind, re.M | re.S)
    return [(m[2], m[3]) for page in PAGES for m in pattern.finditer(page.read_text(encoding="utf-8"))]


EXERCISES = {re.search(r":label: (\S+)", body)[1]: body for _, body in blocks("exercise")}
SOLUTIONS = dict(blocks("solution"))
WITHOUT_NUMBERS = {"ex-project"}


def numbers(text):
    """(value, digits after the point) of every number in a text, TeX and thousands' commas taken out."""
    text = re.sub(r"(?<=\d)(?:,|\{,\})(?=\d{3})|(?<=\d)_(?=\d{3})", "", text)
    text = re.sub(r"\d+-bit|\{(?:eq|ref|cite:p|doc)\}`.*?`|\\frac|[{}\\]", " ", text)
    return [(float(x), len(x.partition(".")[2])) for x in NUMBER.findall(text)]


def unknown(said, known):
    """Numbers of a text, of two digits or more, that are none of the known ones, rounded as they are."""
    values = [value for value, _ in numbers(known)]
    long = [(v, digits) for v, digits in numbers(said) if digits or abs(v) >= 10]
    return [v for v, digits in long if not any(abs(abs(v) - abs(x)) <= 0.501 * 10**-digits for x in values)]


def code(label):
    return "\n".join(CODE.findall(SOLUTIONS[label]))


def test_a_number_that_nothing_prints_is_found():
    assert unknown("about 0.75 of 1,200, by $2^{16.7}$", "0.7481 1_200 16.7") == []
    assert unknown("0.76 and 13", "0.7481 14") == [0.76, 13.0]


def test_every_exercise_has_its_solution_and_there_are_enough():
    assert set(EXERCISES) == set(SOLUTIONS) and len(EXERCISES) >= 30
    assert len([b for b in EXERCISES.values() if FIELD.search(b)]) >= 10
    for body in SOLUTIONS.values():
        assert ":class: dropdown" in body


@pytest.mark.parametrize("label", sorted(set(SOLUTIONS) - WITHOUT_NUMBERS))
def test_a_solution_prints_what_it_says(label):
    example = doctest.DocTestParser().get_doctest(code(label), {}, label, None, 0)
    assert example.examples
    said = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert not result.failed, "".join(said)
    prose = CODE.sub("", SOLUTIONS[label])
    assert unknown(prose, code(label) + EXERCISES[label]) == []


@pytest.mark.parametrize("label", sorted(k for k, body in EXERCISES.items() if FIELD.search(body)))
def test_the_answer_of_a_field_is_printed_by_the_solution(label):
    """To within the tolerance that the field grants, and the tolerance tells a right answer from a wrong one."""
    printed = "\n".join(line for line in code(label).splitlines() if not line.startswith((">>>", "...")))
    for field in FIELD.findall(EXERCISES[label]):
        _, _, answer = field.rpartition(" = ")
        value, within = (float(x.split()[0]) for x in answer.split(" ± "))
        assert any(abs(abs(x) - value) <= within / 2 for x, _ in numbers(printed)), field
        assert within <= 0.05 * abs(value), field


ANSWERS = {  # of the fields on pages of results, in their order, computed
    "01_metric": [sum(p > 0.2 for p in (0.3, 0.3, 0.2, 0.1, 0.1)) + 1],
    "02_top1_law": [10**-0.05],
    "03_moderate_k": [0.23 / (log(1e6) - log(1e4))],
    "04_large_k": [25**-0.5],
    "05_k_dependence": [1000 / 50257 * 4096],
    "06_emergence": [0.9**20],
    "07_two_laws": [-log(1 / 2)],
    "08_rank_distribution": [1 / sum(1 / R for R in (1, 2, 3, 4))],
    "09_families": [t.ppf(0.975, 4) * 0.01 / 5**0.5],
    "10_published": [-log(0.6)],
    "11_precision": [float(np.spacing(np.float16(10)))],
    "12_train_your_own": [100 - 100 * 27**-0.05],
    "13_findings": [min(n for n in range(13) if n / 12 >= 0.8), max(n for n in range(13) if n / 12 <= 0.2)],
    "14_coverage": [100 * (0.95 * 0.05 / 400) ** 0.5],
    "15_appendix": [65.192 / 12.892**2, 1 / (2 * 12.892**2)],
    "16_new_text": [100**0.050 / 100**0.044],
    "17_real_model": [3.2 / log(2) / 2.5],
    "18_authors_figures": [(320_000 / 10_000) ** -0.5],
    "19_tokens": [0.5**0.3, 100**0.5],
    "20_published_tokens": [0.8**3],
    "21_models_and_text": [100 * 64 * 4096 / (64 * 4096 + 200_000), 8e6 / 2e5],
    "22_reproduced": [(0.025 * 0.975 / 10_000) ** 0.5 / norm.pdf(norm.isf(0.025))],
}
SOLVED = r":::\{admonition\} Exercise\n(.*?)\n:::\n+:::\{admonition\} Solution\n:class: dropdown\n(.*?)\n:::"


@pytest.mark.parametrize("page", sorted(p.stem for p in (ROOT / "notebooks").glob("[0-9]*.md")))
def test_the_answer_of_a_field_on_a_page_of_results_is_right_and_its_solution_says_it(page):
    text = (ROOT / "notebooks" / f"{page}.md").read_text(encoding="utf-8")
    fields = [(f, solution) for task, solution in re.findall(SOLVED, text, re.S) for f in FIELD.findall(task)]
    assert len(fields) == text.count("{check}") == len(ANSWERS.get(page, []))
    for (field, solution), answer in zip(fields, ANSWERS.get(page, []), strict=True):
        value, within = (float(x.split()[0]) for x in field.rpartition(" = ")[2].split(" ± "))
        assert abs(answer - value) <= within / 2 and within <= 0.05 * value, field
        assert any(abs(x - value) <= within / 2 for x, _ in numbers(solution)), field


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node to run the page's script")
def test_a_field_reads_numbers_as_people_write_them():
    script = (ROOT / "book" / "_static" / "rbp.js").read_text()
    typed = script[script.index("  function typed") : script.index("  function checked")]
    asked = {"1,035": [1.035, 1035], "0,0606": [0.0606], "6.06e-2": [0.0606], "2 000": [2000], "25%": [25, 0.25]}
    asked |= {"124,127.5": [124127.5], "\u22123": [-3], "abc": [], "": [], "1,2,3": []}
    code = f"{typed}; console.log(JSON.stringify({json.dumps(list(asked))}.map(typed)))"
    done = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == list(asked.values())
