"""Pages in forks of one process that has imported what they need.

    Snakefile --arguments of workflow.page, files for output and errors--> this process
    this process --fork--> page --fork--> kernel

Each page and its kernel are processes of their own, as with `python -m workflow.page`, but import
nothing anew: what they are forked from has one thread and ran no page. Its standard input is a
socket to the workflow, and ends with it.
"""

import asyncio
import json
import os
import socket
from multiprocessing import Process

from ipykernel.kernelapp import launch_new_instance
from jupyter_client.provisioning import local_provisioner

from workflow import page


class Kernel(Process):
    """A process with what Jupyter asks of a Popen."""

    stdin = stdout = stderr = None

    def poll(self):
        return self.exitcode

    wait = poll  # it is called where that is known

    def send_signal(self, number):
        os.kill(self.pid, number)


def be_kernel(*arguments):
    asyncio.set_event_loop(None)  # the page's, which runs there
    launch_new_instance([*arguments, f"--IPKernelApp.parent_handle={os.getppid()}"])


def launch(command, **_):
    """Start the kernel of a command `python -m ipykernel_launcher ...` as a fork."""
    kernel = Kernel(target=be_kernel, args=command[3:])
    kernel.start()
    os.setpgid(kernel.pid, kernel.pid)  # by which Jupyter ends it
    return kernel


def run_page(arguments, output, errors):
    os.dup2(output, 1)
    os.dup2(errors, 2)
    local_provisioner.launch_kernel = launch
    page.main(arguments)


def serve():
    """Fork for each page that is asked for, until nobody is left to ask."""
    inlet = socket.socket(fileno=0)
    inlet.send(b"imported")
    while (asked := socket.recv_fds(inlet, 65536, 2))[0]:
        Process(target=run_page, args=(json.loads(asked[0]), *asked[1])).start()
        for file in asked[1]:
            os.close(file)
