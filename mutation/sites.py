"""The places of a file that can be changed, and how a change is written into its text."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mutation.operators import called, changes
from mutation.places import Places
from mutation.units import Function, unit_at

SPEAKING = {
    "print",
    "warn",
    "warning",
    "info",
    "debug",
    "error",
    "exception",
    "log",
    "say",
    "cast",
    "TypeVar",
    "NewType",
}
LOGGERS = {"log", "logger", "logging", "warnings", "console"}
SHOWING = {"__repr__", "__str__", "__rich__", "describe", "__dir__", "draw_tree", "_draw_moves", "_draw_nodes", "_arcs"}
NOT_LOOKED_AT = ("description", "stacklevel", "strict")  # the strict of zip is an assertion
NEVER = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)


@dataclass(frozen=True)
class Mutant:
    """One change: the bytes ``start`` to ``end`` of a file become ``new``. ``offsets`` are its lines inside of the unit."""

    path: str
    unit: str
    unit_key: str
    line: int
    operator: str
    start: int
    end: int
    old: str
    new: str
    offsets: tuple[int, ...]
    place: int  # where it starts in its unit, in bytes; stays when other units change

    @property
    def key(self) -> str:
        """A name that stays when other functions of the file change."""
        return _hash(self.unit, self.unit_key, self.place, self.old, self.new)

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]


@dataclass(frozen=True)
class Site:
    """A node that can be changed in one or several ways."""

    mutants: tuple[Mutant, ...]

    def rank(self, seed: int) -> str:
        """A random number that depends on nothing but the seed and the site, so that samples are stable."""
        first = self.mutants[0]
        return _hash(seed, first.unit, first.unit_key, first.place, first.old, first.operator)

    def draw(self, seed: int) -> Mutant:
        return self.mutants[int(_hash("which", self.rank(seed)), 16) % len(self.mutants)]


def sample(sites: Sequence[Site], n: int, seed: int) -> list[Mutant]:
    """``n`` sites, each as likely as any other, and one change of each. More are the same ones and some more."""
    return [site.draw(seed) for site in sorted(sites, key=lambda site: site.rank(seed))[:n]]


def all_sites(places: Places) -> list[Site]:
    """Of all files whose code is mutated."""
    found: list[Site] = []
    for path in places.sources():
        found += sites_of((places.root / path).read_text(encoding="utf-8"), path)
    return found


def sites_of(text: str, path: str) -> list[Site]:
    """All sites of a file."""
    starts = _line_starts(text)
    found = []
    for node, statement, offsets in _nodes(ast.parse(text)):
        mutants = tuple(_mutants(node, statement, offsets, text, path, starts))
        if mutants:
            found.append(Site(mutants))
    return found


def _mutants(
    node: ast.AST, statement: ast.stmt, whole_unit: bool, text: str, path: str, starts: list[int]
) -> Iterator[Mutant]:
    source = text.encode()
    for operator, other in changes(node):
        at: ast.AST = node.test if operator == "condition" and isinstance(node, ast.If | ast.While) else node
        line, last = at.lineno, at.end_lineno  # type: ignore[attr-defined]
        start = starts[line - 1] + at.col_offset  # type: ignore[attr-defined]
        end = starts[last - 1] + at.end_col_offset  # type: ignore[attr-defined]
        old = source[start:end].decode()
        unit = unit_at(text, path, line)
        lines = range(unit.first, unit.last + 1) if whole_unit else (statement.lineno, *range(line, last + 1))
        offsets = tuple(sorted({one - unit.first for one in lines}))
        # Code of a module or class has no unit whose text could be hashed; there it is the statement's.
        key = unit.key or _hash(ast.unparse(statement))
        place = start - starts[(unit.first if unit.key else statement.lineno) - 1]
        yield Mutant(path, unit.name, key, line, operator, start, end, old, _written(other), offsets, place)


def _written(node: ast.AST) -> str:
    text = ast.unparse(node)
    needs_no_brackets = isinstance(node, ast.stmt | ast.Constant | ast.Name | ast.Attribute | ast.Call | ast.Slice)
    return text if needs_no_brackets else f"({text})"


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.stmt, bool]]:
    """Nodes with their statement; true for what is executed with its ``def``, like the defaults of arguments."""

    def visit(
        node: ast.AST, statement: ast.stmt | None, at_definition: bool
    ) -> Iterator[tuple[ast.AST, ast.stmt, bool]]:
        if _left_out(node):
            return
        if isinstance(node, ast.stmt):
            statement = node
        if statement is not None and not isinstance(node, ast.Module):
            yield node, statement, at_definition
        for child, defines in _children(node):
            yield from visit(child, statement, at_definition or defines)

    yield from visit(tree, None, False)


def _children(node: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    if isinstance(node, Function):
        for default in [*node.args.defaults, *[one for one in node.args.kw_defaults if one is not None]]:
            yield default, True
        for statement in node.body:
            yield statement, False
    elif isinstance(node, ast.ClassDef):
        yield from ((statement, False) for statement in node.body)
    elif isinstance(node, ast.AnnAssign):
        if node.value is not None:
            yield node.value, False
    elif isinstance(node, ast.Assert):
        yield node.test, False
    elif isinstance(node, ast.Call):
        yield from ((child, False) for child in (node.func, *node.args))
        yield from ((word.value, False) for word in node.keywords if word.arg not in NOT_LOOKED_AT)
    else:
        yield from ((child, False) for child in ast.iter_child_nodes(node))


def _left_out(node: ast.AST) -> bool:
    """Texts, errors, what is printed or logged, types: no numbers come from there."""
    if isinstance(node, NEVER):
        return True
    if isinstance(node, Function):
        return node.name in SHOWING
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return node.value is not None and _is_type(node)
    if isinstance(node, ast.Call):
        root = node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        speaks = isinstance(root, ast.Name) and root.id in LOGGERS
        return speaks or (isinstance(node.func, ast.Name) and called(node) in SPEAKING)
    return isinstance(node, ast.Expr) and (isinstance(node.value, ast.Constant) or _left_out(node.value))


def _is_type(node: ast.Assign | ast.AnnAssign) -> bool:
    """``Numbers = np.ndarray | list``: a name for a type."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    named = isinstance(target, ast.Name) and target.id[:1].isupper() and not target.id.isupper()
    return named and isinstance(node.value, ast.BinOp | ast.Subscript | ast.Call)


def _line_starts(text: str) -> list[int]:
    starts = [0]
    for line in text.encode().split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    return starts


def _hash(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]
