"""Every test of this folder runs on a processor in a small form and, marked `gpu`, on a CUDA device, where one is."""

from pathlib import Path

import pytest
import torch

CUDA = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")]
everywhere = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=CUDA)])


def large(device):
    return device == "cuda"


def alive(pid):
    try:  # a child that is dead and not yet waited for is not alive
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
