"""One process at a time: locks that end with their owner, files whole or not at all."""

import errno
import subprocess
import sys
from unittest.mock import Mock

import pytest

from rbplib.families import InputError, atomic_path, one_at_a_time, write_text
from tests.commands import ROOT

HOLD = """
import sys, time
from pathlib import Path
from rbplib.families import one_at_a_time
with one_at_a_time(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(3)
"""


def holder(path):
    """A process that has the lock of `path` for three seconds."""
    command = [sys.executable, "-c", HOLD, str(path)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_says_so_waits_and_goes_on(tmp_path, capsys):
    path = tmp_path / "table"
    process = holder(path)
    with one_at_a_time(path):
        assert process.wait(2) == 0
    assert str(path) in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_one_thread_may_take_it_again_and_a_folder_in_the_way_is_one_sentence(tmp_path):
    with one_at_a_time(tmp_path / "x"):
        with one_at_a_time(tmp_path / "x"):
            pass
        assert (tmp_path / ".x.lock").exists()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file"), one_at_a_time(tmp_path / "file" / "x"):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_told_and_gone_on_with(
    tmp_path, monkeypatch, capsys, number
):
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=OSError(number, "none")))
    for _ in range(2):
        with one_at_a_time(tmp_path / "x"):
            pass
    err = capsys.readouterr().err
    assert str(tmp_path) in err and err.count("no locks") == 1 and not list(tmp_path.iterdir())


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    write_text(tmp_path / "new/a.txt", "first")
    with pytest.raises(KeyError), atomic_path(tmp_path / "new/a.txt") as temporary:
        temporary.write_text("half")
        raise KeyError
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.txt"]
    assert (tmp_path / "new/a.txt").read_text() == "first"
    with pytest.raises(InputError, match="a.txt"):
        write_text(tmp_path / "new/a.txt/b", "in the way")
