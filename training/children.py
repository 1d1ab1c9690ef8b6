"""Processes that do not outlive the one that started them, however that ends."""

import ctypes
import signal
from contextlib import suppress

PR_SET_PDEATHSIG = 1  # of Linux; elsewhere a child of a process that is killed lives on
try:
    LIBRARY = ctypes.CDLL(None)
except (OSError, TypeError):
    LIBRARY = None


def end_with_parent():
    """For `preexec_fn`: the kernel kills this process when the thread that started it ends."""
    with suppress(AttributeError):
        LIBRARY.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
