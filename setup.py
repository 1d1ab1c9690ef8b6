"""What pyproject.toml cannot say: a wheel carries the families whose models come from the hub, the corpora, and what
pages compare with."""

from pathlib import Path
from shutil import copy, copytree, ignore_patterns

from setuptools import setup
from setuptools.command.build_py import build_py


class WithDefinitions(build_py):
    def run(self):
        super().run()
        if self.editable_mode:
            return
        package, without_weights = Path(self.build_lib) / "rbplib", ignore_patterns("nano-*")
        for folder in ("families", "corpora", "published"):
            copytree(folder, package / folder, ignore=without_weights, dirs_exist_ok=True)
        (package / "book").mkdir(exist_ok=True)
        copy("book/claims.yml", package / "book")


setup(cmdclass={"build_py": WithDefinitions})
