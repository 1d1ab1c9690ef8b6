"""Every test of this folder runs on a processor in a small form and, marked `gpu`, on a CUDA device, where one is."""

import pytest
import torch

CUDA = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")]
everywhere = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=CUDA)])


def large(device):
    return device == "cuda"
