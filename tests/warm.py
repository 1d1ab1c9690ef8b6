"""Python programs whose imports are done: each is a fork of one process that has imported them.

Most of what a page of a small book takes is importing numpy, pandas and matplotlib anew. Only modules of others are
imported beforehand: those of this project are imported by each program, as ever.
"""

import json
import os
import shlex
import signal
import socket
import sys

SIZE = 1 << 16


class Warm:
    """Its `python` is a command like Python's own. `python -m` one of `modules` is a fork of a process that has
    imported `imports`, with working directory, environment and streams of who started it. Anything else, and what has
    one of `cold` among its arguments, is run by Python itself, as everything is on other systems than Linux."""

    def __init__(self, place, imports, modules, cold=()):
        import subprocess

        self.python, address = str(place / "python"), str(place / "warm")
        self.process, fits = None, sys.platform == "linux" and len(os.fsencode(address)) < 100
        if not fits:
            self.python = sys.executable
            return
        asking = [sys.executable, "-I", "-S", __file__, address, json.dumps([modules, cold]), sys.executable]
        (place / "python").write_text(f'#!/bin/sh\nexec {shlex.join(asking)} "$@"\n')
        (place / "python").chmod(0o755)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen()
            command = [sys.executable, __file__, str(listener.fileno()), self.python, *imports]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])

    def close(self):
        if self.process:
            self.process.communicate()


def ask(address, named, python, *arguments):
    """Have a program forked, wait for its end and end as it did; or become Python."""
    modules, cold = json.loads(named)
    if arguments[:1] != ("-m",) or arguments[1] not in modules or set(cold) & set(arguments):
        os.execv(python, [python, *arguments])
    if arguments[1] == "ipykernel_launcher":
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a kernel that is told to end is interrupted first
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address)
        socket.send_fds(line, [b" "], [0, 1, 2])
        line.sendall(json.dumps([os.getcwd(), dict(os.environ), arguments[1:]]).encode())
        line.shutdown(socket.SHUT_WR)
        sys.exit((line.recv(1) or b"\1")[0])


def serve(listener, python, *imports):
    """Fork what is asked for until standard input ends, then end what is left. Forks alone return: (python, line)."""
    import gc
    import importlib
    import select
    from contextlib import suppress

    import psutil

    os.environ |= {"MPLBACKEND": "module://matplotlib_inline.backend_inline", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    for name in imports:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is here stays: forks share it
    listener = socket.socket(fileno=int(listener))
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        line, _ = listener.accept()
        if os.fork():
            line.close()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
        elif program := os.fork():
            code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]) & 255
            with suppress(BrokenPipeError):  # who asked may have been ended
                line.send(bytes([code]))
            os._exit(0)
        else:
            listener.close()
            return python, line
    for left in psutil.Process().children(recursive=True):
        left.kill()
    with suppress(ChildProcessError):
        while True:
            os.wait()
    sys.exit()


def begin(python, line):
    """Be the program that was asked for."""
    import atexit
    import runpy

    said, streams, *_ = socket.recv_fds(line, SIZE, 3)
    while more := line.recv(SIZE):
        said += more
    line.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    place, environment, (module, *arguments) = json.loads(said)
    os.chdir(place)
    os.environ.clear()
    os.environ.update(environment)
    os.environ.pop("JPY_PARENT_PID", None)  # who asked is not the parent here
    os.setsid()
    sys.argv, sys.path[0] = [module, *arguments], place
    sys.executable = sys.executable if module == "ipykernel_launcher" else python  # a page's kernel is forked as well
    atexit.register(leave)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except BaseException as error:
        if getattr(error, "code", error):
            atexit.unregister(leave)  # Python knows what a failure's last words and number are
        raise


def leave():
    """End before all that was imported is taken down: it is shared, and each page touched would be copied first."""
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            stream.flush()
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1].isdigit():
        begin(*serve(*sys.argv[1:]))
    else:
        ask(*sys.argv[1:])
