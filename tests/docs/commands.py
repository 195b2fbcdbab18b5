"""Whether a shell command of the documentation would work, without running it."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from typer.main import get_command

from marl.cli.app import app
from marl.errors import UserError
from marl.run import raw_scenario
from marl.scenario.load import compose
from marl.scenario.search_marks import find_marks
from marl.suite.load import load_suite
from tests.docs.pages import ROOT

OF_OTHERS = {"cat", "cd", "cp", "export", "head", "ls", "mkdir", "mlflow", "ray", "tail", "tensorboard", "wandb"}
PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9_]*(\.\w+)?|.*\.\.\..*")  # FILE, RUN_A, ~/marl_results/.../best
ENDINGS = {"&&", "||", ";", "|", ">", "&"}


def commands_in(text: str) -> list[list[str]]:
    """Words of each command; comments, prompts and set variables are left out."""
    found: list[list[str]] = []
    for line in text.replace("\\\n", " ").splitlines():
        words: list[str] = []
        lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        for word in [*lexer, ";"]:
            if word not in ENDINGS:
                words += [] if not words and re.fullmatch(r"\w+=.*", word) else [word]
                continue
            found += [words] if words else []
            words = []
    return found


def problem_of(words: list[str], files: Collection[str] = ()) -> str | None:
    """What is wrong with a command; ``files`` are those that its page writes down."""
    program, *arguments = words
    name = program.rpartition("/")[2]
    if name == "marl":
        return _marl(arguments, files)
    if name in ("python", "python3"):
        if arguments[:2] == ["-m", "marl.run"]:
            return _marl(["run", *arguments[2:]], files)
        return _python(arguments, files)
    if name == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M)
        return next((f"no target {word}" for word in arguments if "=" not in word and word not in targets), None)
    if name == "pip":
        return _pip(arguments)
    return None if name in OF_OTHERS else f"unknown program {program}"


def _marl(arguments: list[str], files: Collection[str]) -> str | None:
    group: Any = get_command(app)
    try:
        with group.make_context("marl", list(arguments)) as context:
            rest = [*context._protected_args, *context.args]
            name, command, rest = group.resolve_command(context, rest)
            options = command.make_context(name, rest, parent=context).params
    except Exception as error:  # click's or typer's own copy of it
        if type(error).__name__ == "Exit":  # --help
            return None
        return getattr(error, "message", None) or f"{type(error).__name__}: {error}"
    if name == "suite":
        return _suite(Path(options["file"]), files)
    return _scenario(options, files) if options.get("file") else None


def _suite(file: Path, files: Collection[str]) -> str | None:
    """Whether the suite of ``marl suite FILE`` can be read."""
    if file.name in files or PLACEHOLDER.fullmatch(str(file)):
        return None
    try:
        load_suite(file if len(file.parts) == 1 else ROOT / file)
    except UserError as error:
        return str(error)
    return None


def _scenario(options: dict[str, Any], files: Collection[str]) -> str | None:
    """Whether the scenario of ``marl run FILE --set ...`` is valid."""
    file = Path(options["file"])
    if file.name in files or PLACEHOLDER.fullmatch(str(file)):
        return None
    shipped = not file.suffix and len(file.parts) == 1  # a name alone, as in `marl run two_step_game`
    try:
        keys = raw_scenario(file if shipped else ROOT / file, None, options.get("sets") or [])
        if "tune" not in keys and not any(find_marks(keys)):  # files to search over are checked by `marl tune`
            compose(keys)
    except UserError as error:
        return str(error)
    return None


def _python(arguments: list[str], files: Collection[str]) -> str | None:
    if arguments[:1] == ["-c"]:
        compile(arguments[1], "-c", "exec")
        return None
    if arguments[:1] == ["-m"]:
        there = (ROOT / arguments[1].replace(".", "/")).exists() or arguments[1] in ("http.server", "pip", "venv")
        return None if there else f"no module {arguments[1]}"
    file = arguments[0]
    return None if (ROOT / file).is_file() or file in files else f"no file {file}"


def _pip(arguments: list[str]) -> str | None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    asked = [extra for word in arguments for found in re.findall(r"\[([\w,-]+)\]", word) for extra in found.split(",")]
    own = any(word.startswith(".") for word in arguments)
    return next((f"no extra {extra}" for extra in asked if own and extra not in extras), None)
