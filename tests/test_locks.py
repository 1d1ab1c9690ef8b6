"""One process at a time: locks that end with their owner, what killed ones leave, signals that end as Ctrl-C does."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from rbplib.inputs import InputError, atomic_path, one_at_a_time, sweep, write_text
from workflow.book import alone
from workflow.html import check_pages

ROOT = Path(__file__).resolve().parents[1]
HOLD = """
import sys, time
from pathlib import Path
from rbplib.inputs import interrupt, one_at_a_time, stopped_by
stopped_by(interrupt)
try:
    with one_at_a_time(Path(sys.argv[1])):
        print("held", flush=True)
        time.sleep(float(sys.argv[2]))
except KeyboardInterrupt:
    sys.exit(130)
"""


def holder(path, seconds=60, before=()):
    """A process that has the lock of `path`."""
    command = [*before, sys.executable, "-c", HOLD, str(path), str(seconds)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # tests in the background may have it ignored
    process = subprocess.Popen(command, cwd=ROOT, preexec_fn=heard, **pipes)
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_says_who_holds_it_waits_and_goes_on(tmp_path, capsys):
    path = tmp_path / "table"
    process = holder(path, 4)
    with one_at_a_time(path, wait=False) as mine:
        assert not mine
    with one_at_a_time(path) as mine:
        assert mine and process.wait(5) == 0
    assert f"process {process.pid} on " in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_killed_holders_lock_is_free_and_what_it_left_is_removed(tmp_path):
    path = tmp_path / "a[b].parquet"  # a name that a pattern would take for another
    process = holder(path)
    process.kill()
    process.wait()
    write_text(tmp_path / ".a[b].parquet.parts-0123" / "00000.parquet", "")
    for name in (".a[b].parquet.01234567.tmp", ".other.parquet.01234567.tmp", ".unknown"):
        (tmp_path / name).touch()
    with one_at_a_time(path) as mine:
        assert mine
        left = {p.name for p in tmp_path.iterdir()} - {".a[b].parquet.lock"}
        assert left == {".a[b].parquet.parts-0123", ".other.parquet.01234567.tmp", ".unknown"}  # parts are gone on from
    path.touch()
    sweep([tmp_path, tmp_path / "nowhere"])
    assert {p.name for p in tmp_path.iterdir()} == {path.name, ".unknown"}


def test_what_another_process_makes_is_not_swept(tmp_path):
    path = tmp_path / "table"
    process = holder(path)
    with atomic_path(path) as temporary:
        temporary.touch()
        sweep([tmp_path])
        assert temporary.exists()
    process.kill()
    process.wait()


def test_parts_stay_beside_an_older_table_and_go_when_given_up(tmp_path):
    path, part = tmp_path / "table", tmp_path / ".table.parts-0123" / "00000.parquet"
    write_text(part, "")
    path.touch()
    os.utime(path, (1e9, 1e9))  # a damaged one, say
    os.utime(part, (time.time() - 3600,) * 2)
    sweep([tmp_path])
    assert part.exists()
    path.unlink()
    os.utime(part, (1e9, 1e9))
    sweep([tmp_path])
    assert not part.parent.exists()


def test_the_lock_is_held_once_by_one_thread_and_a_folder_in_the_way_is_one_sentence(tmp_path):
    with one_at_a_time(tmp_path / "x"):
        with one_at_a_time(tmp_path / "x", wait=False) as mine:
            assert mine
        assert (tmp_path / ".x.lock").exists()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="could not be written"), one_at_a_time(tmp_path / "file" / "x"):
        pass


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_every_signal_to_end_ends_alike(tmp_path, name):
    process = holder(tmp_path / "table")
    process.send_signal(getattr(signal, name))
    assert process.wait(10) == 130
    assert not list(tmp_path.iterdir())


def test_nohup_is_heeded(tmp_path):
    process = holder(tmp_path / "table", before=["nohup"])
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert process.poll() is None
    process.terminate()
    assert process.wait(10) == 130


def test_the_book_has_one_maker_and_a_dead_ones_locks_are_taken_over(tmp_path, monkeypatch):
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path / "results"))
    stale = [".snakemake/locks/0.input.lock", "logs/.book.log.lock", "results/corpora/.docs.json.01234567.tmp"]
    stale += [
        "results/.digests.json.01234567.tmp",
        "results/ranks/f/m/.docs.parquet.01234567.tmp",
        "book/_executed/f/.01_metric.ipynb.01234567.tmp",
    ]
    for name in stale:
        write_text(tmp_path / name, "")
    with alone():
        code = "from workflow.book import alone\nwith alone(): pass"
        process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        assert f"process {os.getpid()} on " in process.stderr.readline()
    assert process.wait(10) == 0
    assert not any((tmp_path / name).exists() for name in stale)


def test_what_a_crash_leaves_is_no_page(tmp_path, monkeypatch):
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    for name in (".01_metric.running.ipynb", ".01_metric.ipynb.01234567.tmp"):
        write_text(tmp_path / "book" / "_executed" / "f" / name, "half")
    assert check_pages() == (0, [])
