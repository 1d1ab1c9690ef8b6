"""`python -m workflow.gpus N COMMAND`: the command on one of N GPUs, which no other such has.

Who has which is told by locks under logs/, which end with their process. CUDA_VISIBLE_DEVICES,
where it is set, says which GPUs there are.
"""

import os
import subprocess
import sys
import time
from contextlib import suppress

from filelock import FileLock, Timeout

from rbplib.families import root


def on_a_gpu(count, command):
    """Exit code of the command, run once one of the GPUs is free."""
    numbers = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    while True:
        # the first without a lock
        for number in numbers.split(",")[:count]:
            lock = root() / "logs" / f".gpu-{number}.lock"
            with suppress(Timeout), FileLock(lock, 0, fallback_to_soft=False):
                os.environ["CUDA_VISIBLE_DEVICES"] = number
                return subprocess.call(command)
        time.sleep(1)


if __name__ == "__main__":
    sys.exit(on_a_gpu(int(sys.argv[1]), sys.argv[2:]))
