"""Pages of the documentation and the blocks of code in them.

A comment right above a block says what is special about it:

``<!-- not run: REASON -->``  the block cannot be checked, because REASON
``<!-- slow: REASON -->``     Python that takes more than a few seconds (whatever builds a Trainer counts as slow anyway)
``<!-- run -->``              shell commands that are really executed, not only checked
``<!-- file: NAME -->``       the block is a file that commands of the page use
``<!-- tour -->``             shell commands whose output the page shows, see docs/tour.py
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>\S*)[^\n]*\n(?P<text>.*?)^ *(?P=fence) *$", re.M | re.S
)
NOTE = re.compile(r"<!-- (not run|slow|run|file|tour)(?:: ([^\n]*?))? -->\s*\Z")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str  # path from the root of the project
    line: int
    language: str
    text: str
    note: str  # not run, slow, run, file, or nothing
    about: str  # what the note says

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def page_files() -> tuple[Path, ...]:
    """The README and everything below docs/."""
    return (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    return blocks_in(page.read_text(encoding="utf-8"), name_of(page))


def blocks_in(text: str, page: str) -> list[Block]:
    return [_block(text, page, found) for found in FENCE.finditer(text)]


def _block(text: str, page: str, found: re.Match[str]) -> Block:
    note = NOTE.search(text[: found.start()])
    indent = len(found["indent"])
    inner = "".join(line[indent:] if line.strip() else line for line in found["text"].splitlines(keepends=True))
    line = text.count("\n", 0, found.start()) + 1
    return Block(page, line, found["language"], inner, note[1] if note else "", (note[2] or "") if note else "")


def without_code(text: str) -> str:
    """The page without its blocks and inline code, where brackets mean nothing."""
    return re.sub(r"`[^`\n]*`", "code", FENCE.sub("", text))
