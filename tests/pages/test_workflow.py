"""The workflow: what it would run, what it refuses, and what makes it run again."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml
from conftest import SETTINGS
from notebookfiles import KERNEL
from ranktables import write_family

from rbplib.families import InputError, load_corpus
from rbplib.texts import sample_path, texts_digest
from workflow.book import make_book, run

ROOT = Path(__file__).resolve().parents[2]
PROFILE = ROOT / "workflow" / "profiles" / "default"


def snakemake(place, *more, snakefile=ROOT / "workflow" / "Snakefile"):
    script = Path(sys.executable).with_name("snakemake")
    if not script.is_file():
        pytest.skip("snakemake is not installed")
    command = [script, "--snakefile", snakefile, "--directory", place, "--profile", PROFILE, "--cores", "2", *more]
    environment = {**os.environ, "RBP_ROOT": str(place), "RBP_RESULTS": str(place / "results")}
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout + done.stderr


def planned(place, *more, **kwargs):
    """{rule: jobs} of a dry run."""
    code, text = snakemake(place, "-n", *more, **kwargs)
    assert code == 0, text[-3000:]
    print(*dict.fromkeys(re.findall(r"reason: .*", text)), sep="\n")  # shown where a test fails
    table = re.search(r"^Job stats:\njob +count\n[- ]+\n((?:\S+ +\d+\n)+)", text, re.M)
    jobs = {}
    for line in table[1].splitlines() if table else ():
        rule, count = line.split()
        rule = "__".join(rule.split("__")[:2])  # measure__FAMILY__MODEL: one rule per group of models
        jobs[rule] = jobs.get(rule, 0) + int(count)
    return jobs


@pytest.fixture
def place(tmp_path, monkeypatch):
    """One family of three models that are only names, two corpora that are here already, and two notebooks."""
    import nbformat
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    for folder in ("families", "corpora", "notebooks", "book", "workflow"):
        (tmp_path / folder).mkdir()
    models = [{"id": f"a/{n}"} for n in ("small", "middle", "large")]
    family = {"embedded": True, "context": 256, "models": models}
    (tmp_path / "families/demo.yml").write_text(yaml.safe_dump(family))
    for name in ("docs", "code"):
        (tmp_path / f"corpora/{name}.yml").write_text(f"source: embedded\nkind: {name}\n")
        with monkeypatch.context() as here:
            here.setenv("RBP_ROOT", str(tmp_path))
            here.setenv("RBP_RESULTS", str(tmp_path / "results"))
            kept = sample_path(load_corpus(name))
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps({"texts": [name], "digest": texts_digest([name])}))
    for name in ("01_first", "11_precision"):
        code = new_code_cell("family: str = 'demo'\nn_bootstrap: int = 9", metadata={"tags": ["parameters"]})
        nb = new_notebook(cells=[new_markdown_cell("# T"), code], metadata=KERNEL)
        nbformat.write(nb, tmp_path / f"notebooks/{name}.ipynb")
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_one_job_per_notebook_and_two_to_measure_a_family(place):
    jobs = planned(place)
    assert jobs == {"measure__demo": 2, "notebook": 1, "together": 1, "html": 1, "all": 1, "total": 6}


def test_with_more_families_than_cores_each_is_measured_in_one_process(place):
    for name in ("second", "third"):
        shutil.copy(place / "families/demo.yml", place / f"families/{name}.yml")
    jobs = planned(place)
    assert [jobs[f"measure__{name}"] for name in ("demo", "second", "third")] == [1, 1, 1]


def test_a_page_runs_again_when_its_family_is_another(place):
    """A page is kept while its family's file says the same and is the same file, whatever its place is called."""
    (place / "families/demo.yml").unlink()
    (place / "corpora/docs.yml").unlink()
    shutil.rmtree(place / "results")
    write_family(place)
    for path in place.glob("corpora/*.yml"):  # of texts that cannot be gathered
        path.write_text(re.sub("kind: .*", "kind: planted", path.read_text()))
    own, page = place / "families/synthetic.yml", "book/_executed/synthetic/01_first.ipynb"
    code, text = snakemake(place, page)
    assert code == 0 and (place / page).is_file(), text[-3000:]
    assert planned(place, page) == {}
    before = own.read_text()
    own.write_text(f"# a remark\n{before}")
    assert planned(place, page) == {}
    own.write_text(f"{before}note: Of another kind.\n")
    assert planned(place, page)["notebook"] == 1
    own.unlink()
    (place / "else").mkdir()
    (place / "else/synthetic.yml").write_text(before)
    elsewhere = ("--config", f"families={place}/else/synthetic.yml")
    assert planned(place, page, *elsewhere) == {"notebook": 1, "total": 1}  # of another file, from the same tables


def test_a_family_of_the_hub_is_measured_model_by_model(place):
    path = place / "families/demo.yml"
    path.write_text(path.read_text().replace("embedded: true", "embedded: false"))
    jobs = planned(place, "--config", "families=demo", "corpora=docs")
    assert jobs["measure__demo"] == 3


def test_a_misspelt_setting_is_an_error(place):
    code, text = snakemake(place, "-n", "--config", "n_bootsrap=10")
    assert code != 0 and "no setting 'n_bootsrap': did you mean 'n_bootstrap'" in text


def test_an_unknown_family_is_an_error_with_a_hint(place):
    code, text = snakemake(place, "-n", "--config", "families=dmo")
    assert code != 0 and "did you mean 'demo'" in text


@pytest.mark.parametrize("folder", ["$(touch ran)", "a 'b' \"c\"", "päper (1); touch ran", "`touch ran`,&"])
def test_names_of_files_are_never_commands(place, monkeypatch, folder):
    """Whatever a family's file and folder are called, each step gets their path whole and runs nothing of it."""
    path = place / folder / f"{folder}.yml"
    path.parent.mkdir()
    path.write_text("name: own\n" + (place / "families/demo.yml").read_text())
    code, text = snakemake(
        place, "-n", "-p", "--config", f"families={json.dumps([str(path)])}", f"corpora={json.dumps(['docs'])}"
    )
    assert code == 0, text[-3000:]
    steps = [shlex.split(line) for line in text.splitlines() if " -m rbplib" in line]
    assert len([step for step in steps if f"--family={path}" in step]) == 3  # two groups to measure, one notebook


@pytest.mark.parametrize("name", ["$(touch ran).yml", "a b.yml"])
def test_a_cluster_s_jobs_take_plain_names_alone(place, name):
    """SLURM's executor writes a job's settings between double quotes into a line that a shell reads."""
    (place / name).write_text("name: own\n" + (place / "families/demo.yml").read_text())
    (place / "plain-ä.yml").write_text("name: own\n" + (place / "families/demo.yml").read_text())
    config = ("-n", "--config", "corpora=docs")
    code, text = snakemake(place, *config, f"families={json.dumps([f'{place}/{name}'])}", "--jobs", "2")
    assert code != 0 and "a job on a cluster takes no" in text
    code, text = snakemake(place, *config, f"families={place}/plain-ä.yml", "--jobs", "2")
    assert code == 0, text[-3000:]


def test_a_page_that_names_its_texts_keeps_them(place):
    """Page 19 shows counts of a grid that was measured elsewhere, on texts that may not be here."""
    for name, own in (("01_first", "[]"), ("19_tokens", "['docs']")):
        text = (place / "notebooks/11_precision.ipynb").read_text()
        path = place / f"notebooks/{name}.ipynb"
        path.write_text(text.replace("n_bootstrap: int = 9", f"corpora: list = {own}"))
    code, text = snakemake(place, "-n", "-p", "--config", "corpora=code")
    assert code == 0, text[-3000:]
    steps = [line for line in text.splitlines() if " -m workflow.book notebook " in line]
    told = {name: next(s for s in steps if f" {name} " in s) for name in ("01_first", "19_tokens")}
    assert "corpora" in told["01_first"] and "corpora" not in told["19_tokens"]


def test_a_folder_that_may_not_be_written_is_one_sentence(place, monkeypatch):
    monkeypatch.setenv("RBP_ROOT", str(place))
    (place / "logs").write_text("in the way")
    with pytest.raises(InputError, match=r"book\.log could not be written .*: free space or fix permissions"):
        make_book(["demo"], show=False)


def test_one_bad_family_file_does_not_end_the_book(place):
    (place / "families/bad.yml").write_text("models: [")
    (place / "families/lost.yml").write_text("embedded: true\nrepeats: bad\ncontext: 9\nmodels: [a/b]\n")
    code, text = snakemake(place, "-n")
    assert code == 0 and "bad.yml is not readable" in text and "lost is left out" in text
    assert "measuring demo" in text and "measuring lost" not in text


def test_two_families_or_texts_of_one_name_are_refused(place):
    for folder in ("a", "b"):
        (place / folder).mkdir()
        (place / folder / "lad.yml").write_text(f"context: 9\nmodels: [{folder}/x]\n")
        (place / folder / "notes.txt").write_text(f"words of {folder}")
    code, text = snakemake(place, "-n", "--config", f"families={place}/a/lad.yml,{place}/b/lad.yml")
    assert code != 0 and "two families are named 'lad'" in text
    code, text = snakemake(place, "-n", "--config", f"corpora={place}/a/notes.txt,{place}/b/notes.txt")
    assert code != 0 and "two corpora are named 'notes'" in text


def test_make_book_refuses_an_unknown_family_before_it_starts(place, monkeypatch):
    monkeypatch.setenv("RBP_ROOT", str(place))
    with pytest.raises(InputError, match="did you mean 'demo'"):
        make_book(["dem"])
    assert not (place / "logs").exists()


def run_rules(place, *rules):
    """Run a workflow of a few rules, each (name, shell command), all wanted."""
    text = f"rule all:\n    input: {', '.join(repr(f'{name}.done') for name, _ in rules)}\n"
    for name, command in rules:
        text += f"rule {name}:\n    output: '{name}.done'\n    log: 'logs/{name}.log'\n    shell: {command!r}\n"
    (place / "Snakefile").write_text(text)
    arguments = ["--snakefile", place / "Snakefile", "--directory", place, "--cores", 2, "--keep-going"]
    return run(arguments, place / "logs/book.log", show=False)


def test_a_failing_step_is_told_in_its_own_words(place, monkeypatch):
    monkeypatch.setenv("RBP_ROOT", str(place))
    said = "echo 'rbp: the text is empty: name another.' > {log}; exit 1"
    with pytest.raises(RuntimeError, match=r"^rbp: the text is empty: name another\.\nThe whole log is"):
        run_rules(place, ("measure__demo", said), ("html", "touch {output}"))
    assert (place / "html.done").exists() and "Error in rule measure__demo" in (place / "logs/book.log").read_text()


def test_a_broken_workflow_is_told_in_snakemakes_words(place):
    (place / "Snakefile").write_text("rule all:\n    input: 'nowhere'\n")
    with pytest.raises(RuntimeError, match=r"(?s)nowhere.*The whole log is"):
        run(["--snakefile", place / "Snakefile", "--directory", place, "--cores", 1], place / "logs/book.log", False)


def test_bad_input_found_while_planning_is_one_sentence(place):
    text = "from rbplib.families import InputError\nraise InputError('mine has no corpus: name one.')\n"
    (place / "Snakefile").write_text(text)
    with pytest.raises(InputError, match=r"^mine has no corpus: name one\.$"):
        run(["--snakefile", place / "Snakefile", "--directory", place, "--cores", 1], place / "logs/book.log", False)


def test_stage_times_come_from_the_steps(place):
    stages = run_rules(place, ("measure__demo", "sleep 0.2; touch {output}"), ("html", "touch {output}"))
    assert {name: steps for name, (steps, _) in stages.items()} == {"measure": 1, "pages": 1}
    assert stages["measure"][1] >= 0.2
    assert not [t for t in threading.enumerate() if isinstance(t, threading.Timer) and not t.finished.is_set()]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_stopped_workflow_ends_its_steps_and_says_so(place, name):
    """From a keyboard the whole group gets the signal; others go to the first process alone."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "  # a shell may ignore it
        "sys.path[:0] = sys.argv[2:]; import test_workflow; from pathlib import Path; "
        "test_workflow.run_rules(Path(sys.argv[1]), ('html', 'echo $$ > started; sleep 60; touch {output}'))"
    )
    command = [sys.executable, "-c", code, place, Path(__file__).parent, Path(__file__).parents[1]]
    process = subprocess.Popen(list(map(str, command)), start_new_session=True, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (place / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    (os.killpg if name == "SIGINT" else os.kill)(process.pid, getattr(signal, name))
    assert "KeyboardInterrupt" in process.communicate(timeout=30)[1]
    with pytest.raises(ProcessLookupError):
        os.kill(int((place / "started").read_text()), 0)
    assert not (place / "html.done").exists()


def rule_of(family):
    return "measure__" + family.replace("-", "_").replace(".", "_")


CONFIG = ("--config", *(f"{k}={v}" for k, v in SETTINGS.items()))


def test_nothing_changed_runs_nothing(small_book):
    assert planned(small_book, *CONFIG) == {}


def test_a_comment_in_a_rule_runs_nothing(small_book, tmp_path):
    changed = tmp_path / "Snakefile"
    text = (ROOT / "workflow" / "Snakefile").read_text()
    text = text.replace("rule notebook:", "# another comment\nrule notebook:").replace('"OMP_NUM', '"  OMP_NUM')
    changed.write_text(text)
    assert planned(small_book, *CONFIG, snakefile=changed) == {}


def test_touching_a_family_file_runs_nothing_and_changing_a_model_measures_it(small_book, other):
    path = small_book / "families" / f"{other}.yml"
    before = path.read_text()
    try:
        path.touch()
        assert planned(small_book, *CONFIG) == {}
        family = yaml.safe_load(before)
        family["models"][0]["dtype"] = "bfloat16"
        path.write_text(yaml.safe_dump(family, sort_keys=False))
        jobs = planned(small_book, *CONFIG)
        assert [n for rule, n in jobs.items() if rule == rule_of(other)] == [1]
        assert not any(rule == rule_of("nano-pythia") for rule in jobs)
    finally:
        path.write_text(before)


def test_a_lost_table_is_measured_again(small_book, other):
    path = next((small_book / "results/ranks" / other).glob("*/docs-*.parquet"))
    hidden = path.with_name("hidden")
    path.rename(hidden)
    try:
        assert planned(small_book, *CONFIG)[rule_of(other)] == 1
    finally:
        hidden.rename(path)


def test_a_new_family_joins_by_its_file_alone(small_book, other):
    new = small_book / "families" / "nano-another.yml"
    new.write_text((small_book / "families" / f"{other}.yml").read_text())
    try:
        jobs = planned(small_book, *CONFIG)
        assert jobs[rule_of("nano-another")] == 1 and jobs["html"] == 1  # three families on two cores
    finally:
        new.unlink()
