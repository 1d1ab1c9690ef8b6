"""Papermill without a kernel: cells run in this process, and what they show is that of a kernel.

Apart from `workflow.pages`, which plans what nothing is run for, since these imports are slow.
"""

import io
import logging
import os
from contextlib import redirect_stdout

import matplotlib
import nbformat
import papermill
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from matplotlib_inline.backend_inline import configure_inline_support
from papermill.engines import Engine, papermill_engines
from traitlets import Type
from traitlets.config import Config

from rbplib.families import InputError, root, write_text
from workflow.forks import Failed

INLINE = "module://matplotlib_inline.backend_inline"  # which a kernel has
outputs = []  # of the cell that runs, in the order in which they come, as of a kernel


def keep(kind, **parts):
    outputs.append(nbformat.v4.new_output(kind, **parts))


class Value(DisplayHook):
    """Keeps the value of a cell's last line."""

    def write_output_prompt(self):
        """Nothing: it is no terminal."""

    def write_format_data(self, data, metadata=None):
        about = {"metadata": metadata or {}, "execution_count": self.prompt_count}
        keep("execute_result", data=data, **about)


class Display(DisplayPublisher):
    """Keeps what a cell displays."""

    def publish(self, data, metadata=None, **_):
        keep("display_data", data=data, metadata=metadata or {})


class Printed(io.TextIOBase):
    """Standard output of cells."""

    def write(self, text):
        if outputs and outputs[-1].output_type == "stream":
            outputs[-1].text += text
        elif text:
            keep("stream", name="stdout", text=text)
        return len(text)


class Shell(InteractiveShell):
    displayhook_class = Type(Value)
    display_pub_class = Type(Display)

    def ask_exit(self):
        raise SystemExit  # of exit() and quit()


class InProcess(Engine):
    """Papermill's engine without a kernel: cells run in this process, which serves one page."""

    @classmethod
    def execute_managed_notebook(cls, manager, kernel_name, **_):
        shell = Shell.instance(config=Config({"HistoryManager": {"enabled": False}}))
        matplotlib.use(INLINE)
        matplotlib.interactive(True)
        configure_inline_support(shell, INLINE)
        for cell in manager.nb.cells:
            if cell.cell_type != "code" or not cell.source.strip():
                continue
            outputs.clear()
            with redirect_stdout(Printed()):
                result = shell.run_cell(cell.source, store_history=True)
            cell |= {"outputs": list(outputs), "execution_count": result.execution_count}
            if not result.success:
                error = result.error_before_exec or result.error_in_exec
                raise error if isinstance(error, InputError) else failure(manager.nb, cell, error)


def failure(notebook, cell, error):
    """What a failed cell raises; the notebook as far as it ran is kept."""
    path = root() / "logs" / f"failed-{os.getpid()}.ipynb"
    write_text(path, nbformat.writes(notebook))
    number = cell.metadata.get("cell", "of the parameters")
    why = f"{type(error).__name__}: {error}"
    return Failed(f"failed in cell {number} ({why}); the notebook as far as it ran is {path}")


papermill_engines.register("in-process", InProcess)


def execute(notebook, parameters):
    """The notebook as papermill ran it."""
    logging.getLogger("papermill").setLevel(logging.ERROR)
    how = {"engine_name": "in-process", "progress_bar": False}
    return papermill.execute_notebook(notebook, None, parameters, **how)
