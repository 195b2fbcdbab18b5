"""Fills docs/tour.md by running it: ``python docs/tour.py`` (or ``make tour``).

Every ``bash`` block below a line ``<!-- tour -->`` is run in one empty folder, in order, and what it prints replaces the
``text`` block behind it. ``<!-- tour: Ctrl-C after iter 1 -->`` presses Ctrl-C as soon as a printed line begins with that,
``<!-- file: NAME -->`` writes the block to a file. So the page shows what a user sees, on the machine that ran it last.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tour.md"
PICTURES = {
    "film.gif": "tour_film.gif",
    "results/compare/compare.png": "tour_compare.png",
}  # of the tour -> in docs/pictures
STEP = re.compile(
    r"<!-- (?P<note>tour|file)(?:: (?P<about>[^\n]*?))? -->\n```\w+\n(?P<text>.*?)^```\n"
    r"(?P<between>\n```text\n)?(?P<output>(?(between).*?)^)?(?(between)```\n)",
    re.M | re.S,
)
MINUTES = 10


@dataclass(frozen=True)
class Seen:
    """What one block printed, and how it ended."""

    commands: str
    output: str
    code: int


class Tour:
    """Runs the blocks of a page in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: list[Seen] = []
        for name in ("scenarios", "examples"):
            (folder / name).symlink_to(ROOT / name)

    def walk(self, page: str) -> str:
        """The page with new outputs."""
        return STEP.sub(self._step, page)

    def _step(self, found: re.Match[str]) -> str:
        if found["note"] == "file":
            (self.folder / found["about"]).write_text(found["text"], encoding="utf-8")
            return found[0]
        press_at = (found["about"] or "").removeprefix("Ctrl-C after ")
        output, code = self._run(found["text"], press_at)
        self.seen.append(Seen(found["text"], output, code))
        whole = found[0]
        cut = found.start("output") - found.start()
        return f"{whole[:cut]}{output}```\n"

    def _run(self, commands: str, press_at: str) -> tuple[str, int]:
        """What the commands print, both streams together, and their exit code."""
        lines: list[str] = []
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", commands], cwd=self.folder, env=self._environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if press_at and line.startswith(press_at):
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does
                press_at = ""
        return "".join(lines), process.wait(timeout=60 * MINUTES)

    def _environment(self) -> dict[str, str]:
        tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        own = {"PATH": tools, "MARL_RESULTS_DIR": "results", "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
        return {**os.environ, **own, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0", "PYTHONUNBUFFERED": "1"}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tour = Tour(Path(folder))
        page = tour.walk(PAGE.read_text(encoding="utf-8"))
        for seen in tour.seen:
            print(f"$ {seen.commands.strip()}\n{seen.output}exit code {seen.code}\n", flush=True)
        PAGE.write_text(page, encoding="utf-8")
        for made, kept in PICTURES.items():
            shutil.copyfile(Path(folder) / made, ROOT / "docs" / "pictures" / kept)


if __name__ == "__main__":
    main()
