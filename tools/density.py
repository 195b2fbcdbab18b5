"""``python -m tools.density``: how dense the code of the package is, and whether it keeps within its limits.

``--check``: every dense function and every function above complexity 10 has to be named in ``tools/density.yaml`` with a
reason; there may be only so many of them, and a name that is no longer needed has to go.
Exit codes: 0, 1 if a limit is broken, 2 for bad input.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tools.complexity import Function, Source, count

ROOT = Path(__file__).resolve().parent.parent
EXCEPTIONS = ROOT / "tools" / "density.yaml"
TRAINER = Path("training/trainer.py")

# Dense: many branches on few lines, so that a reader has to unfold them.
DENSE_COMPLEXITY, DENSE_RATIO = 8, 0.6
COMPLEX, TOO_COMPLEX = 10, 15
LONG_FUNCTION, LONG_FILE = 40, 300

MOST_BRANCHES_PER_LINE = 0.38
MOST_DENSE = 10
MOST_COMPLEX = 20
LARGEST_FILE = 400
TRAINER_LINES, TRAINER_NAMES = 300, 35


@dataclass(frozen=True)
class Found:
    """A function and where it stands; ``name`` is the whole dotted one."""

    path: str
    name: str
    function: Function

    @property
    def dense(self) -> bool:
        return self.function.complexity >= DENSE_COMPLEXITY and round(self.function.branches_per_line, 9) >= DENSE_RATIO

    def __str__(self) -> str:
        one = self.function
        return f"{self.path}:{one.line} {one.name} {one.complexity} {one.branches_per_line:.2f}"


class Package:
    """All files below a package's folder, counted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, Source] = {}
        self.functions: list[Found] = []
        for file in sorted(folder.rglob("*.py")):
            self._add(file)

    def _add(self, file: Path) -> None:
        inside = file.relative_to(self.folder.parent)
        source = count(file.read_text(encoding="utf-8"))
        self.files[str(inside)] = source
        module = ".".join(inside.with_suffix("").parts).removesuffix(".__init__")
        for function in source.functions:
            self.functions.append(Found(str(inside), f"{module}.{function.name}", function))

    @property
    def branches_per_line(self) -> float:
        branches = sum(one.function.complexity for one in self.functions)
        return branches / max(1, sum(one.function.lines for one in self.functions))

    @property
    def lines(self) -> int:
        return sum(source.lines for source in self.files.values())

    @property
    def comments_per_1000(self) -> float:
        return 1000 * sum(source.comments for source in self.files.values()) / max(1, self.lines)

    @property
    def largest_file(self) -> str:
        return max(self.files, key=lambda path: self.files[path].lines)

    @property
    def worst(self) -> Found:
        return max(self.functions, key=lambda one: one.function.complexity)

    def dense(self) -> list[Found]:
        """The densest first."""
        found = [one for one in self.functions if one.dense]
        return sorted(found, key=lambda one: -one.function.branches_per_line)

    def above(self, complexity: int) -> list[Found]:
        """The worst first."""
        found = [one for one in self.functions if one.function.complexity > complexity]
        return sorted(found, key=lambda one: -one.function.complexity)

    def trainer(self) -> tuple[int, int] | None:
        """Lines of the trainer's file and how many names it imports; None in a package that has no such file."""
        file = self.folder / TRAINER
        if not file.exists():
            return None
        text = file.read_text(encoding="utf-8")
        imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
        return len(text.splitlines()), sum(len(node.names) for node in imports)


def figures(package: Package) -> list[tuple[str, str, str]]:
    """Rows of a table: what, how much, and how much there may be."""
    above, too = len(package.above(COMPLEX)), len(package.above(TOO_COMPLEX))
    largest, worst = package.largest_file, package.worst
    rows = [
        ("branches per line of code", f"{package.branches_per_line:.3f}", f"<= {MOST_BRANCHES_PER_LINE}"),
        (
            f"dense functions (complexity >= {DENSE_COMPLEXITY}, branches per line >= {DENSE_RATIO})",
            str(len(package.dense())),
            f"<= {MOST_DENSE}",
        ),
        (f"functions above complexity {COMPLEX}", str(above), f"<= {MOST_COMPLEX}"),
        (f"functions above complexity {TOO_COMPLEX}", str(too), "0"),
        ("the worst", f"{worst.function.complexity} ({worst.name})", f"<= {TOO_COMPLEX}"),
        ("comments per 1,000 lines", f"{package.comments_per_1000:.1f}", ""),
        ("functions", f"{len(package.functions):,}", ""),
        ("files / lines", f"{len(package.files):,} / {package.lines:,}", ""),
        ("largest file", f"{package.files[largest].lines} ({largest})", f"<= {LARGEST_FILE}"),
    ]
    trainer = package.trainer()
    if trainer is not None:
        rows.append((f"lines of {TRAINER}", str(trainer[0]), f"<= {TRAINER_LINES}"))
        rows.append((f"names imported by {TRAINER}", str(trainer[1]), f"<= {TRAINER_NAMES}"))
    return rows


def complaints(package: Package, exceptions: dict[str, str]) -> Iterator[str]:
    """What breaks a limit, and names in the exceptions that nothing needs."""
    dense, above = package.dense(), package.above(COMPLEX)
    yield from _unnamed(dense, above, exceptions)
    if len(dense) > MOST_DENSE:
        yield f"{len(dense)} dense functions; at most {MOST_DENSE} (--list dense)"
    if len(above) > MOST_COMPLEX:
        yield f"{len(above)} functions above complexity {COMPLEX}; at most {MOST_COMPLEX} (--list complex)"
    for one in package.above(TOO_COMPLEX):
        yield f"{one}: complexity {one.function.complexity}; at most {TOO_COMPLEX}, with or without a reason"
    if round(package.branches_per_line, 3) > MOST_BRANCHES_PER_LINE:  # as it is shown
        yield f"{package.branches_per_line:.3f} branches per line; at most {MOST_BRANCHES_PER_LINE}"
    yield from _long_files(package)


def _unnamed(dense: list[Found], above: list[Found], exceptions: dict[str, str]) -> Iterator[str]:
    """Functions without a reason, and reasons without a function."""
    reasons_needed = {one.name: one for one in [*dense, *above]}
    for name, one in reasons_needed.items():
        if name not in exceptions:
            what = "dense" if one.dense else f"above complexity {COMPLEX}"
            yield f"{one}: {what}; unfold it, or give {name} a reason in {EXCEPTIONS.name}"
    for name in exceptions:
        if name not in reasons_needed:
            yield f"{EXCEPTIONS.name}: {name} needs no exception any longer; take it out"


def _long_files(package: Package) -> Iterator[str]:
    for path, source in package.files.items():
        if source.lines > LARGEST_FILE:
            yield f"{path}: {source.lines} lines; at most {LARGEST_FILE}"
    trainer = package.trainer()
    if trainer is None:
        return
    lines, names = trainer
    if lines > TRAINER_LINES:
        yield f"{TRAINER}: {lines} lines; at most {TRAINER_LINES}"
    if names > TRAINER_NAMES:
        yield f"{TRAINER} imports {names} names; at most {TRAINER_NAMES}"


def read_exceptions(file: Path) -> dict[str, str]:
    """Dotted names with reasons."""
    found = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    if not isinstance(found, dict):
        raise ValueError(f"{file}: expected lines like `marl.module.function: why it stays`.")
    for name, reason in found.items():
        if not isinstance(reason, str) or not reason.strip():
            raise ValueError(f"{file}: {name} has no reason; say why it stays as it is.")
    return found


def _long(package: Package) -> Iterator[str]:
    """Functions and files that are longer than we like, the longest first."""
    functions = sorted(package.functions, key=lambda one: -one.function.lines)
    for one in functions:
        if one.function.lines > LONG_FUNCTION:
            yield f"{one.path}:{one.function.line} {one.function.name} {one.function.lines} lines"
    for path, source in sorted(package.files.items(), key=lambda item: -item[1].lines):
        if source.lines > LONG_FILE:
            yield f"{path} {source.lines} lines"


LISTS: dict[str, Callable[[Package], Iterator[object]]] = {
    "dense": lambda package: iter(package.dense()),
    "complex": lambda package: iter(package.above(COMPLEX)),
    "long": _long,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    given = _parser().parse_args(arguments)
    try:
        package = Package(_folder(given.package))
        exceptions = read_exceptions(given.exceptions) if given.check else {}
    except (OSError, ValueError, SyntaxError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if given.list:
        for one in LISTS[given.list](package):
            print(one)
        return 0
    print_table(("", "now", "limit"), figures(package))
    found = list(complaints(package, exceptions)) if given.check else []
    for complaint in found:
        print(complaint, file=sys.stderr)
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tools.density", description="Count branches, lines and comments.")
    parser.add_argument("package", nargs="?", type=Path, default=ROOT / "marl", help="Folder of a package; ours.")
    parser.add_argument("--list", choices=sorted(LISTS), help="Print these functions: place, name, complexity, ratio.")
    parser.add_argument("--check", action="store_true", help="Exit code 1 if a limit is broken.")
    parser.add_argument("--exceptions", type=Path, default=EXCEPTIONS, metavar="FILE", help="Names with reasons.")
    return parser


def _folder(given: Path) -> Path:
    folder = given.resolve()
    if not any(folder.rglob("*.py")):
        raise ValueError(f"{given} has no Python files; expected the folder of a package.")
    return folder


def print_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as their widest cell."""
    widths = [max(len(row[column]) for row in [heading, *rows]) for column in range(len(heading))]
    for row in [heading, *rows]:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())


if __name__ == "__main__":
    sys.exit(main())
