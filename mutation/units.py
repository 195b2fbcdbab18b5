"""A *unit* is a function or method (with all that is inside of it), or the rest of a class or of a module.

Lines and mutants are named by their unit and their place in it, so that what was found out about one function stays true when
another one is changed.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Unit:
    """``name`` is ``marl/data/replay.py::Replay.add``; ``first`` its first line; ``key`` a hash of its text."""

    name: str
    first: int
    last: int
    key: str


@cache
def units_of(text: str, path: str) -> tuple[Unit, ...]:
    """All functions and methods of a file; what is inside of a function belongs to it."""
    found: list[Unit] = []

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, Function):
                found.append(_unit(node, f"{path}::{prefix}{node.name}", text))
            elif isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")

    visit(ast.parse(text).body, "")
    return tuple(found)


def _unit(node: Function, name: str, text: str) -> Unit:
    last = node.end_lineno or node.lineno
    own = "\n".join(text.split("\n")[node.lineno - 1 : last])
    return Unit(name, node.lineno, last, hashlib.sha256(own.encode()).hexdigest()[:12])


def unit_at(text: str, path: str, line: int) -> Unit:
    """The unit that a line belongs to: the module where it is in no function."""
    for unit in units_of(text, path):
        if unit.first <= line <= unit.last:
            return unit
    return Unit(f"{path}::", 1, text.count("\n") + 1, "")


def read(root: Path, path: str) -> str:
    return (root / path).read_text(encoding="utf-8")
