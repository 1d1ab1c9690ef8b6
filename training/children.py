"""Processes that do not outlive the one that started them, however that ends; and what they end with."""

import ctypes
import os
import signal
from contextlib import suppress

INCOMPLETE = 75  # exit status where all was tried in time and some parts are missing
PR_SET_PDEATHSIG = 1  # of Linux; elsewhere a child of a process that is killed lives on
try:
    LIBRARY = ctypes.CDLL(None)
except (OSError, TypeError):
    LIBRARY = None


def with_parent():
    """For `preexec_fn`: the kernel kills the new process when the thread that starts it ends."""
    parent = os.getpid()

    def end_with_parent():
        with suppress(AttributeError):
            LIBRARY.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the kernel was asked
            os._exit(1)

    return end_with_parent
