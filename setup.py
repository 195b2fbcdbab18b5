"""What pyproject.toml cannot say: the scenarios of the repository are shipped with the package, as ``marl/scenarios``."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SCENARIOS = Path(__file__).parent / "scenarios"


class BuildWithScenarios(build_py):
    """Copies the scenario files beside the modules. A checkout that is installed in place finds them where they are."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib) / "marl" / "scenarios"
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted(SCENARIOS.glob("*.yaml")):
            shutil.copyfile(file, target / file.name)


setup(cmdclass={"build_py": BuildWithScenarios})
