"""The quick form of benchmarks: whole runs, and no time told of ways that do not agree."""

import signal

from benchmarks import gpu, heads
from benchmarks.__main__ import main


def test_ways_of_the_head_agree_and_are_told(capsys):
    assert main(["heads", "--quick"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split(" | ")[0].strip("| ") for line in lines] == list(heads.CONTENDERS)


def test_a_way_that_is_wrong_is_not_timed(capsys, monkeypatch):
    def wrong(*inputs):
        rank, logprob = heads.compare(*inputs)
        return rank + 1, logprob

    monkeypatch.setitem(heads.CONTENDERS, "logits, compare", wrong)
    assert heads.main(["--quick"]) == 1
    assert "ranks differ at V, d = (1000, 16)" in capsys.readouterr().err


def test_what_comes_from_elsewhere_is_taken(capsys):
    assert main(["imports", "--quick"]) == 0
    assert capsys.readouterr().out.count("\n| `rbp ") == 4


def test_what_needs_a_gpu_or_vllm_says_so(capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setenv("PATH", "")
    assert gpu.main([]) == main(["vllm"]) == 0
    assert capsys.readouterr().out == (
        "There is no CUDA device here: nothing was measured.\n"
        "There is no vLLM here: nothing was compared.\n"
    )
    # a rehearsal, in which one way fails, and one is stopped by the clock
    monkeypatch.setitem(gpu.WAYS, "logits alone", lambda *_: 1 / 0)
    stopped = lambda *_: signal.raise_signal(signal.SIGALRM)  # noqa: E731
    monkeypatch.setitem(gpu.WAYS, "linear_cross_entropy", stopped)
    assert gpu.main(["--quick", "--device", "cpu"]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[2].split(" | ")[1:4] == ["no", "128", "0"]
    assert "| logits alone | ZeroDivisionError: division by zero |" in text
    assert "| linear_cross_entropy | TimeoutError: stopped: the time was up |" in text
    assert "| 512 threads a row |" in text and "| full logits, cross_entropy |" in text
    # and so is what there was no time for
    assert gpu.main(["--quick", "--device", "cpu", "--minutes", "0"]) == 1
    assert capsys.readouterr().out == "Not proven right: TimeoutError: no time was left\n"
    # what fails before anything is proven leaves a sentence
    monkeypatch.setattr(gpu, "right", lambda *_: 1 / 0)
    assert gpu.main(["--quick", "--device", "cpu"]) == 1
    assert capsys.readouterr().out == "Not proven right: ZeroDivisionError: division by zero\n"
