"""What pyproject.toml cannot say: a wheel carries the families and corpora whose models come from the hub."""

from pathlib import Path
from shutil import copytree, ignore_patterns

from setuptools import setup
from setuptools.command.build_py import build_py


class WithDefinitions(build_py):
    def run(self):
        super().run()
        for folder in () if self.editable_mode else ("families", "corpora"):
            place = Path(self.build_lib) / "rbplib" / folder
            copytree(
                folder, place, ignore=ignore_patterns("nano-*"), dirs_exist_ok=True
            )  # of those the weights stay here


setup(cmdclass={"build_py": WithDefinitions})
