"""One list of dependencies: pyproject.toml; the lock, the constraints and environment.yml must
agree with it."""

import re
import shutil
import subprocess
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
import vl_convert
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from corpora.make import EVALUATION, TRAINING
from tests.commands import ROOT, python

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKED_EXTRAS = ("book", "flow", "test")
LOCKS = ("requirements.lock", "requirements-first.lock")


def pins(name):
    """{package: version} of a file with one `package==version` at the start of a line."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", (ROOT / name).read_text(), re.M)
    assert found, f"{name} pins nothing"
    return {canonicalize_name(package): version for package, version in found}


def test_the_lock_satisfies_every_requirement():
    locked, extras = pins("requirements.lock"), PROJECT["optional-dependencies"]
    lines = PROJECT["dependencies"] + [line for e in LOCKED_EXTRAS for line in extras[e]]
    for requirement in map(Requirement, lines):
        version = locked.get(canonicalize_name(requirement.name))
        if requirement.name != "torch":  # which stands in a lock of its own
            assert version, f"{requirement.name} is not in requirements.lock; run `make lock`"
            assert requirement.specifier.contains(version, prereleases=True), str(requirement)


def test_every_package_that_rbplib_runs_on_has_a_lowest_version():
    extras = PROJECT["optional-dependencies"]
    for requirement in map(Requirement, PROJECT["dependencies"] + extras["excel"] + extras["gguf"]):
        assert {"==", ">="} & {part.operator for part in requirement.specifier}


def test_a_package_below_it_is_told_in_one_sentence(tmp_path):
    """As pip leaves NumPy 1.26 where something else holds it."""
    (tmp_path / "pyarrow.py").write_text("raise ImportError('pyarrow needs NumPy 2, found 1.26')")
    for words in (["-m", "rbplib", "fit", "nano-pythia"], ["-c", "import rbplib; rbplib.fit"]):
        done = python(*words, PYTHONPATH=f"{tmp_path}:{ROOT}")
        assert "found 1.26): install it, or a newer" in done.stderr.splitlines()[-1]


LOCK = (ROOT / "requirements.lock").read_text()


@pytest.mark.parametrize("package", sorted({**EVALUATION, **TRAINING}.keys() - {"torch"}))
def test_packages_of_embedded_text_are_the_same_everywhere(package):
    """No Python and no platform may lack one or have it at another version: each would draw other
    text."""
    name, version = canonicalize_name(package), (EVALUATION | TRAINING)[package]
    (line,) = re.findall(rf"^{name}==.*", LOCK, re.M)
    assert line.split()[0] == f"{name}=={version}" and ";" not in line


def test_multiprocess_is_one_wheel_for_every_python():
    """It publishes one for each Python, whose files differ; with one hash in the lock all read the
    same text."""
    (line, rest) = re.search(r"^(multiprocess==.*)([^=]*)", LOCK, re.M).groups()
    assert line.count("--hash=") == 1 and "--hash" not in rest
    assert f"ONE_FOR_ALL := {line}" in (ROOT / "Makefile").read_text()


@pytest.fixture
def make(tmp_path):
    """Run make in a copy of what it reads, on a PATH that holds what is named."""
    checkout, commands = tmp_path / "checkout", tmp_path / "bin"
    for folder in (checkout, commands):
        folder.mkdir()
    for name in ("Makefile", "pyproject.toml", *LOCKS):
        shutil.copy(ROOT / name, checkout)
    for name in ("sh", "sed", "rm", "touch", "mkdir", "cp", "chmod"):
        (commands / name).symlink_to(shutil.which(name))

    def run(*arguments, variables=(), **programs):
        for name, target in programs.items():
            (commands / name).write_text(
                f'#!/bin/sh\nexec "{target}" "$@"\n' if target else "#!/bin/sh\nexit 1\n"
            )
            (commands / name).chmod(0o755)
        command = [shutil.which("make"), *arguments]
        env = {"PATH": str(commands), **dict(variables)}
        return subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True)

    return run


HOSTILE = "a';touch ran;'b`touch ran`$(shell touch ran)\"$$(touch ran)$HOME"


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["book", "FAMILIES=a';touch ran;'b`touch ran` *"],
         "--family a';touch --family ran;'b`touch --family ran` --family *"),
        (["labs", "FAMILIES=a`touch ran`;'b *"], "a`touch ran`;'b *"),
        (["paper", "PAPER=--plan `touch ran` *"], "--plan `touch ran` *"),
        (["page", f"PAGE={HOSTILE}"], f"--page {HOSTILE} --family  --corpus "),
    ],
)  # fmt: skip
def test_names_given_to_make_are_handed_on_and_never_commands(make, tmp_path, words, said):
    checkout = tmp_path / "checkout"
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / ".venv/.ready").touch()
    shutil.copy(shutil.which("echo"), checkout / ".venv/bin/python")
    done = make(*words)
    assert done.returncode == 0 and done.stdout.endswith(f"{said}\n"), done.stdout + done.stderr
    assert not (checkout / "ran").exists()


PROGRAM = """#!/bin/sh
# Python that notes what it is asked for, and makes an environment of itself.
echo "$0 $*" >> "{log}"
case "$*" in
  *"-m venv"*) for venv; do :; done; mkdir -p "$venv/bin"
    cp "$0" "$venv/bin/python"; cp "$0" "$venv/bin/uv"; rm -f "$venv/half" ;;
  *"import pip"*) test ! -e .nopip ;;
  *pip*install*"{stop}"*) kill -9 $PPID ;;
esac
"""


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
@pytest.mark.parametrize("stop", ["-r .uv.lock", "requirements-first.lock", "-r requirements.lock"])
def test_an_environment_that_was_killed_is_begun_anew(make, tmp_path, stop):
    """At whatever it was killed, half a package may lie there that would pass for a whole one."""
    checkout, log = tmp_path / "checkout", tmp_path / "log"
    program = tmp_path / "program"
    program.write_text(PROGRAM.format(log=log, stop=stop))
    program.chmod(0o755)
    assert make("env", f"PYTHON={program}").returncode
    (checkout / ".venv/half").touch()
    program.write_text(PROGRAM.format(log=log, stop="nothing"))
    done = make("env", f"PYTHON={program}")
    assert done.returncode == 0, done.stderr
    assert (checkout / ".venv/.ready").exists() and not (checkout / ".venv.begun").exists()
    assert not (checkout / ".venv/half").exists() and log.read_text().count("-m venv --clear") == 2


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_an_environment_of_a_user_is_never_cleared_and_gets_pip(make, tmp_path):
    checkout, log = tmp_path / "checkout", tmp_path / "log"
    (tmp_path / "own/bin").mkdir(parents=True)
    for name in ("python", "uv"):
        (tmp_path / "own/bin" / name).write_text(PROGRAM.format(log=log, stop="nothing"))
        (tmp_path / "own/bin" / name).chmod(0o755)
    (checkout / ".nopip").touch()
    done = make("env", f"VENV={tmp_path}/own", variables={"PIP_FIND_LINKS": "/wheels"})
    assert done.returncode == 0 and "without a hash" in done.stdout
    assert "-m venv" not in log.read_text() and "-m ensurepip" in log.read_text()


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_make_without_a_python_that_fits_is_one_sentence(make):
    for words, programs in ((["env"], {"python3": None}), (["env", "PYTHON=false"], {})):
        done = make(*words, **programs)
        assert done.returncode and "Python 3.11, 3.12 or 3.13 is needed" in done.stdout
        assert "Traceback" not in done.stderr


def test_constraints_repeat_the_lock():
    assert pins("constraints.txt") == pins("requirements.lock")
    _, version = PROJECT["dependencies"][0].split("torch==")
    assert version in (ROOT / "uv-lock.toml").read_text()


@pytest.mark.parametrize("name", LOCKS)
def test_everything_that_is_installed_has_a_hash(name):
    text = (ROOT / name).read_text()
    assert all(
        "--hash=sha256:" in block for block in re.split(r"^(?=[\w.-]+==)", text, flags=re.M)[1:]
    )


def test_make_installs_nothing_without_a_hash_but_a_build_of_torch_that_is_asked_for():
    """And the checkout itself."""
    recipe = (ROOT / "Makefile").read_text().split("\n$(READY):")[1].split("\n\n")[0]
    calls = re.findall(r"\$\((?:PIP|UV)\) ([^;&\n]+)", recipe)
    bare = [call for call in calls if "--require-hashes" not in call]
    assert bare == ["--no-deps $(TORCH)", calls[-1]] and calls[-1].endswith("--no-deps -e .")


def test_services_of_others_install_by_hashes():
    """They name no other index, from which torch would come without a hash."""
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        assert not re.search("INDEX|FIND_LINKS|pip install", path.read_text()), path


def test_notices_are_of_the_versions_of_the_scripts_that_the_site_holds():
    head = (ROOT / "book/_static/vendor/LICENSES.txt").read_text().split("===")[0]
    versions = dict(line.split() for line in head.splitlines() if len(line.split()) == 2)
    mathjax = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static/mathjax"
    version = re.search(r'VERSION="([^"]+)"', (mathjax / "startup.js").read_text())
    assert versions["mathjax"] == version[1]
    assert versions["vega"] == vl_convert.get_vega_version()
    assert versions["vega-embed"] == vl_convert.get_vega_embed_version()
    assert versions["vega-lite"].startswith(vl_convert.get_vegalite_versions()[-1] + ".")
