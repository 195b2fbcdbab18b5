"""How branched a function is, and on how many lines.

Complexity is counted as radon does (https://radon.readthedocs.io): 1 for the function, and 1 more for every

- ``if``, ``elif``, ternary and ``assert``,
- ``for`` and ``while``, and their ``else``,
- ``except``, and the ``else`` of a ``try``,
- ``and`` and ``or``,
- ``for`` and ``if`` of a comprehension or generator expression,
- ``case`` of a ``match``, without the one that takes all the rest.

Lambdas belong to the function around them. Nested functions, and methods of nested classes, are functions of their own:
neither their branches nor their lines count for the function around them. What radon does not see counts here: branches
inside of an ``assert``, and handlers of an ``except*``.

Lines of code are those with anything but a comment or a docstring, from ``def`` (decorators apart) to the end.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
FOR_TOOLS = ("# type:", "# noqa", "# pragma", "# mypy:", "# ruff:")  # comments that tell a reader nothing


@dataclass(frozen=True)
class Function:
    """One function or method; ``name`` has the classes and functions around it, as in ``Trainer.run``."""

    name: str
    line: int
    complexity: int
    lines: int

    @property
    def branches_per_line(self) -> float:
        return self.complexity / self.lines


@dataclass(frozen=True)
class Source:
    """What was counted in one file."""

    functions: tuple[Function, ...]
    lines: int
    comments: int


def count(text: str) -> Source:
    """Counts the functions, lines and comments of a module."""
    tree = ast.parse(text)
    code, comments = _read_tokens(text)
    code -= _docstring_lines(tree)
    functions = tuple(_functions(tree, "", code))
    return Source(functions, len(text.splitlines()), comments)


def complexity(function: FunctionNode) -> int:
    """1, and the branches of the function's own body."""
    return 1 + sum(_branches(node) for node in _own_nodes(function.body))


def _own_nodes(statements: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """All nodes below, except for what nested functions and classes hold."""
    waiting: list[ast.AST] = list(statements)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Definition):
            continue
        yield node
        waiting.extend(ast.iter_child_nodes(node))


def _branches(node: ast.AST) -> int:
    match node:
        case ast.If() | ast.IfExp() | ast.Assert():
            return 1
        case ast.For() | ast.AsyncFor() | ast.While():
            return 1 + bool(node.orelse)
        case ast.Try() | ast.TryStar():
            return len(node.handlers) + bool(node.orelse)
        case ast.BoolOp():
            return len(node.values) - 1
        case ast.comprehension():
            return 1 + len(node.ifs)
        case ast.Match():
            return len(node.cases) - any(_takes_all(case.pattern) for case in node.cases)
    return 0


def _takes_all(pattern: ast.pattern) -> bool:
    """Whether it is ``_`` or a bare name."""
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None


def _functions(around: ast.AST, prefix: str, code: set[int]) -> Iterator[Function]:
    for node in ast.iter_child_nodes(around):
        if not isinstance(node, Definition):
            yield from _functions(node, prefix, code)
            continue
        name = prefix + node.name
        if isinstance(node, FunctionNode):
            lines = max(1, len(code & _own_lines(node)))  # `def f(): "a docstring"` has no line that is only code
            yield Function(name, node.lineno, complexity(node), lines)
        yield from _functions(node, f"{name}.", code)


def _own_lines(function: FunctionNode) -> set[int]:
    """Line numbers of a function, without those of functions inside of it."""
    lines = set(_extent(function))
    for node in ast.walk(function):
        if isinstance(node, FunctionNode) and node is not function:
            lines -= set(_extent(node))
    return lines


def _extent(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _read_tokens(text: str) -> tuple[set[int], int]:
    """The numbers of all lines with code, and how many comments are meant for readers."""
    lines: set[int] = set()
    comments = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(FOR_TOOLS):
            comments += 1
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines, comments


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, Definition | ast.Module) and ast.get_docstring(node, clean=False) is not None:
            lines.update(_extent(node.body[0]))
    return lines
