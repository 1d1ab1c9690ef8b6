"""`python -m workflow.gpus N COMMAND`: the command on one of N GPUs, which no other such has.

Who has which is told by locks under logs/, which end with their process. CUDA_VISIBLE_DEVICES,
where it is set, says which GPUs there are.
"""

import fcntl
import os
import sys
import time

from rbplib.families import root


def take(count):
    """The number of a GPU that is free, once there is one, held until this process ends."""
    numbers = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    while True:
        # the first without a lock
        for number in numbers.split(",")[:count]:
            place = root() / "logs" / f".gpu-{number}.lock"
            place.parent.mkdir(exist_ok=True)
            file = os.open(place, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                continue
            os.set_inheritable(file, True)  # the command holds it
            return number
        time.sleep(1)


if __name__ == "__main__":
    os.environ["CUDA_VISIBLE_DEVICES"] = take(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
