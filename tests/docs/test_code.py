"""The code of the documentation works: Python runs, scenarios are valid, commands exist with their options.

tests/docs/pages.py explains the comments that make an exception for a block.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from marl.analysis.asked import AskedConfig
from marl.scenario.joyrl import is_joyrl, translate
from marl.scenario.load import compose
from marl.scenario.resolve import resolve
from marl.scenario.search_marks import find_marks
from marl.suite.load import load_suite
from marl.suite.plan import plan_suite
from marl.tune.config import tune_config
from marl.tune.plan import plan_scenarios
from tests.docs.commands import commands_in, problem_of
from tests.docs.pages import ROOT, Block, blocks_in, blocks_of, name_of, page_files
from tests.processes import run_code

BLOCKS = [block for page in page_files() for block in blocks_of(page)]
CHECKED = [block for block in BLOCKS if block.note != "not run"]
RUN_ELSEWHERE = {"README.md": "tests/test_readme.py", "docs/models.md": "tests/test_models_page.py"}
TRAINS = re.compile(r"Trainer\(|tune\.run\(|ray\.init\(|\.train\(\)")
LANGUAGES = {"python", "yaml", "bash", "text", "json", "make", ""}


def of(language: str, blocks: Iterable[Block] = CHECKED) -> list[Block]:
    return [block for block in blocks if block.language == language]


def script_of(page: str) -> str:
    """All Python of a page as one script, with the lines where they are in the page."""
    lines: list[str] = []
    for block in of("python"):
        if block.page == page and block.note != "file":
            lines += [""] * (block.line - len(lines)) + block.text.splitlines()
    return "\n".join(lines) + "\n"


def is_slow(page: str) -> bool:
    noted = any(block.note == "slow" for block in of("python") if block.page == page)
    return noted or TRAINS.search(script_of(page)) is not None


PYTHON_PAGES = sorted({block.page for block in of("python") if block.note != "file"} - {*RUN_ELSEWHERE})
QUICK = [page for page in PYTHON_PAGES if not is_slow(page)]
SLOW = [page for page in PYTHON_PAGES if is_slow(page)]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which scenarios and examples are found as in the project."""
    for folder in ("scenarios", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def surroundings(desk: Path) -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "MARL_RESULTS_DIR": str(desk / "results")}
    return environment | {"OMP_NUM_THREADS": "1", "COLUMNS": "120"}


@pytest.mark.parametrize("page", QUICK)
def test_the_python_of_a_page_runs(page: str, desk: Path) -> None:
    exec(compile(script_of(page), page, "exec"), {"__name__": "__main__"})


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.parametrize("page", SLOW)
def test_the_python_of_a_page_that_trains_runs(page: str, desk: Path) -> None:
    script = desk / "page.py"
    script.write_text(script_of(page), encoding="utf-8")
    as_a_script = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
    done = run_code(as_a_script, script, cwd=desk, env=surroundings(desk), timeout=550, warm_ray=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


@pytest.mark.parametrize("block", of("yaml"), ids=lambda block: block.place)
def test_a_scenario_in_a_page_is_valid(block: Block, desk: Path) -> None:
    """Whole scenarios are resolved against their env; of parts, all keys and values have to be right."""
    keys = yaml.safe_load(block.text)
    if "language_model" in keys:  # no scenario: what `marl exploit FILE.yaml` reads
        AskedConfig(**keys)
        return
    if "suite" in keys:  # no scenario: what `marl suite FILE` reads
        file = desk / "suite.yaml"
        file.write_text(block.text, encoding="utf-8")
        plan_suite(load_suite(file), desk)
        return
    if is_joyrl(keys):  # in JoyRL's words
        keys = translate(keys, block.place).scenario
    if any(find_marks(keys)) or "tune" in keys:  # values to search over: every trial has to be valid
        options = tune_config(keys.pop("tune", {}), block.place)
        plan_scenarios({"env": "CartPole-v1", "stop": {"training_iteration": 1}, **keys}, options, block.place)
    elif "env" in keys and "input" not in keys:
        resolve(compose(keys, block.place))
    else:
        compose({"env": "two_step_game", **keys}, block.place)


@pytest.mark.parametrize("block", of("bash"), ids=lambda block: block.place)
def test_the_commands_in_a_block_exist_and_take_these_options(block: Block) -> None:
    files = {other.about for other in BLOCKS if other.page == block.page and other.note == "file"}
    problems = {" ".join(words): problem_of(words, files) for words in commands_in(block.text)}
    assert {command: problem for command, problem in problems.items() if problem} == {}


def test_commands_in_blocks_without_a_language_take_these_options() -> None:
    lines = {
        f"{block.place} {line}": commands_in(line)
        for block in [*of(""), *of("text")]
        for line in block.text.splitlines()
        if re.match(r"(\$ )?(\.venv/bin/)?(marl|make|python -m marl\.\w+) +\S", line)
    }
    assert lines
    problems = {place: problem_of(words) for place, found in lines.items() for words in found}
    assert {place: problem for place, problem in problems.items() if problem} == {}


RUN = sorted({block.page for block in of("bash") if block.note == "run"})


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.parametrize("page", RUN)
def test_commands_that_a_page_runs_succeed_one_after_the_other(page: str, desk: Path) -> None:
    for block in BLOCKS:
        if block.page == page and block.note == "file":
            (desk / block.about).write_text(block.text, encoding="utf-8")
    commands = "\n".join(block.text for block in of("bash") if block.page == page and block.note == "run")
    shell = ["bash", "-euo", "pipefail", "-c", commands]
    done = subprocess.run(shell, cwd=desk, env=surroundings(desk), capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def test_every_block_has_a_language_that_is_known_here() -> None:
    assert {block.place: block.language for block in BLOCKS if block.language not in LANGUAGES} == {}


def test_every_exception_gives_its_reason() -> None:
    needs = ("not run", "slow", "file")
    assert [block.place for block in BLOCKS if block.note in needs and len(block.about) < 4] == []


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("marl run scenarios/two_step_game.yaml --set lr=0.1  # a comment", None),
        ("marl run two_step_game --seed 3", None),
        ("marl run two_step_gam", "no scenario file"),
        (".venv/bin/marl run FILE --seed 3 && make demo", None),
        ("A=1 python -m marl.run scenarios/two_step_game.yaml | head -3", None),
        ("pip install -e '.[mpe]'", None),
        ("marl run scenarios/two_step_game.yaml --sed 3", "No such option"),
        ("marl run scenarios/two_step_gam.yaml", "no scenario file"),
        ("marl run scenarios/two_step_game.yaml --set lrr=1", "lrr"),
        ("marl ran FILE", "No such command"),
        ("make demonstration", "no target"),
        ("python examples/custom.py", "no file"),
        ("pip install -e '.[mpee]'", "no extra"),
        ("mrl run", "unknown program"),
    ],
)
def test_a_command_that_would_fail_is_found(command: str, problem: str | None) -> None:
    found = [told for words in commands_in(command) if (told := problem_of(words))]
    assert found == [] if problem is None else problem in found[0]


def test_a_block_is_read_with_its_language_its_place_and_its_exception() -> None:
    text = "a\n\n<!-- not run: needs a GPU -->\n```python\nx\n```\n1. b\n\n    ```bash\n    y\n    ```\n````text\n```\n````\n"
    assert blocks_in(text, "p.md") == [
        Block("p.md", 4, "python", "x\n", "not run", "needs a GPU"),
        Block("p.md", 9, "bash", "y\n", "", ""),
        Block("p.md", 12, "text", "```\n", "", ""),
    ]


def test_pages_that_are_left_to_other_tests_are_run_there() -> None:
    for page, test in RUN_ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text("utf-8")
        assert name_of(ROOT / page) == page
