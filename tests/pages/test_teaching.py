"""Teaching pages: solutions print what they say, fields know the answer, words and names stand
somewhere."""

import doctest
import importlib
import inspect
import re

import pytest

from paper import verify
from paper.distributions import RankDistribution
from paper.show import claims
from rbplib import law
from tests.commands import ROOT

BOOK = ROOT / "book"
TEXTS = {p: p.read_text() for p in [*BOOK.rglob("*.md"), *ROOT.glob("notebooks/*.md")]}
NOTEBOOKS = {p.stem: text for p, text in TEXTS.items() if p.parent.name == "notebooks"}
BY_HAND = {
    p: text
    for p, text in TEXTS.items()
    if p.parent.name != "notebooks" and "_" not in p.parent.name[:1]
}
DERIVATIONS = {p.stem: text for p, text in BY_HAND.items() if p.parent.name == "derivations"}
CODE = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
FIELD = re.compile(r"\{check\}`.+? = (\S+) ± (\S+?)(?: .*?)?`")
NUMBER = re.compile(r"(?<![\w.{])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


# ---- exercises


def blocks(kind):
    """[(what stands behind the directive's name, its body)] of exercises.md and the derivations."""
    pattern = re.compile(rf"^(`{{3,}})\{{{kind}\}} (.+?)\n(.*?)^\1$", re.M | re.S)
    texts = [(BOOK / "exercises.md").read_text(), *DERIVATIONS.values()]
    return [(match[2], match[3]) for text in texts for match in pattern.finditer(text)]


EXERCISES = {re.search(r":label: (\S+)", body)[1]: body for _, body in blocks("exercise")}
SOLUTIONS = dict(blocks("solution"))
SOLVED = (
    r":::\{admonition\} Exercise\n(.*?)\n:::\n+"
    r":::\{admonition\} Solution\n:class: dropdown\n(.*?)\n:::"
)


def numbers(text):
    """(value, digits after the point) of every number in a text, TeX and thousands' commas taken
    out."""
    text = re.sub(r"(?<=\d)(?:,|\{,\})(?=\d{3})|(?<=\d)_(?=\d{3})", "", text)
    text = re.sub(r"\d+-bit|\{(?:eq|ref|cite:p|doc)\}`.*?`|\\frac|[{}\\]", " ", text)
    return [(float(x), len(x.partition(".")[2])) for x in NUMBER.findall(text)]


def unknown(text, right):
    """Numbers of a text, of two digits or more, that are none of the known ones, rounded as they
    are."""
    values = [abs(value) for value, _ in numbers(right)]
    long = [(value, digits) for value, digits in numbers(text) if digits or abs(value) >= 10]
    return [
        v for v, digits in long if not any(abs(abs(v) - x) <= 0.501 * 10**-digits for x in values)
    ]


def test_every_exercise_has_its_solution():
    assert set(EXERCISES) == set(SOLUTIONS) and len(EXERCISES) > 25


@pytest.mark.parametrize("label", sorted(set(SOLUTIONS) - {"ex-project"}))  # which prints nothing
def test_a_solution_prints_what_it_says_and_what_its_fields_ask_for(label):
    code = "\n".join(CODE.findall(SOLUTIONS[label]))
    example = doctest.DocTestParser().get_doctest(code, {}, label, None, 0)
    printed = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=printed.append)
    assert example.examples and not result.failed, "".join(printed)
    assert unknown(CODE.sub("", SOLUTIONS[label]), code + EXERCISES[label]) == []
    wanted, fields = "".join(e.want for e in example.examples), FIELD.findall(EXERCISES[label])
    assert len(fields) == EXERCISES[label].count("{check}")
    assert [field for field in fields if not said(*field, wanted)] == []


def said(answer, within, text):
    """Whether a text has a number that a field takes, of either sign."""
    wanted, slack = abs(float(answer)), float(within) / 2
    return any(abs(abs(x) - wanted) <= slack for x, _ in numbers(text))


@pytest.mark.parametrize("page", sorted(NOTEBOOKS))
def test_the_solution_on_a_page_of_results_says_the_answers_of_its_fields(page):
    solved = re.findall(SOLVED, NOTEBOOKS[page], re.S)
    fields = [(*field, solution) for task, solution in solved for field in FIELD.findall(task)]
    assert len(fields) == NOTEBOOKS[page].count("{check}")
    assert [field for field in fields if not said(*field)] == []


def test_a_choice_has_one_right_answer():
    choices = re.findall(r"\{choice\}`[^`]*\? ([^`]*)`", "\n".join(TEXTS.values()))
    assert len(choices) == "".join(TEXTS.values()).count("{choice}`") > 9
    for answers in choices:
        assert " | " in answers and len(re.findall(r"(?:^| )\*[^|]+\*(?: |$)", answers)) == 1


# ---- words and names


def glossary_words():
    text = (BOOK / "glossary.md").read_text()
    entries = re.findall(r"```\{glossary\}\n(.*?)```", text, re.S)
    return re.findall(r"^(\S.*)\n  \S", "\n".join(entries), re.M)


def test_every_status_and_verdict_is_in_the_glossary_once():
    words = {"ok", law.NOT_TESTED, *law.EXPLAINED[2:], *claims.ANSWERS.keys() - {"no"}}
    words |= {rule.basis for rule in claims.all_claims().values()}
    words |= {verify.ONLY_RUN, verify.ONLY_BOOK, verify.DIFFERS}
    sources = map(inspect.getsource, (law.doubts, RankDistribution.status.fget))
    words.update(re.findall(r'"([a-z][a-z ]+)"', "".join(sources).replace("irreducible", "")))
    entries = glossary_words()
    assert "few misses" in words and words <= set(entries), words - set(entries)
    assert len(entries) == len(set(entries))


def test_the_notes_end_at_the_last_slide():
    notes, slides = ((BOOK / f"{name}.md").read_text() for name in ("teachers_notes", "slides"))
    assert int(re.findall(r"to (\d+)\*\*", notes)[-1]) == slides.count("\n## ")


def test_labels_and_derivations_that_code_names_exist():
    labels = set(re.findall(r"^\s*:label: ([\w-]+)", "\n".join(BY_HAND.values()), re.M))
    code = "".join(
        p.read_text() for folder in ("rbplib", "paper") for p in ROOT.glob(f"{folder}/**/*.py")
    )
    named = set(re.findall(r"[Ll]abel (eq-[\w-]+\w)", code))
    assert len(named) > 10 and named <= labels
    assert set(re.findall(r"book/derivations/(\w+)", code)) <= set(DERIVATIONS)


def test_functions_named_on_pages_exist():
    """A dotted path in code type: the part before the last dot is a module."""
    named = re.findall(r"`((?:rbplib|paper)[\w.]*)\.(\w+)`", "\n".join(BY_HAND.values()))
    assert len(named) > 10
    for module, name in named:
        assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


def test_what_the_readme_found_is_the_books():
    values = verify.read_reference().set_index(["number", "case"])["value"]
    line, grid = (
        values["verdict", f"all/17_findings claim {claim}"].split(", ")[1]
        for claim in ("top1_line at k = 1", "line_budgets")
    )
    # of each text, the exponents at the most and at the least training text
    alpha = values["alpha"].astype(float)
    most, least = (alpha.filter(like=claim).array for claim in ("exponent_tokens", "line_budgets"))
    words = (
        f"{line} small ladders, but in only {grid} on a grid of sizes and amounts of text. With "
    )
    words += f"16 times the text alpha is {(most / least).mean():.1f} times as large."
    assert words in " ".join((ROOT / "README.md").read_text().split())
