"""What notebooks show: short, with long things folded, and never anything that runs."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from marl.analysis.compare.compare import Comparison, Curve, Pair
from marl.gametheory.game import MatrixGame
from marl.page import notebook
from marl.runs.progress import Progress
from marl.runs.result import ShownResult
from marl.training.notebook_display import NotebookDisplay, in_notebook
from marl.training.trainer import Trainer
from marl.tune.objective import Objective
from marl.tune.outcome import TrialOutcome, Tuning

HOSTILE = "<img src=x onerror=alert(1)></td><script>alert(2)</script>\"'&"
OURS = {"div", "b", "table", "tr", "th", "td", "details", "summary", "progress"}


class Elements(HTMLParser):
    """The elements and attributes of a piece of HTML, as a browser would read it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.words = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def read_safely(html: str) -> Elements:
    """Well formed, and made of our own elements alone."""
    found = Elements(html)
    assert not found.open
    assert set(found.tags) <= OURS
    assert found.attributes <= {"style", "value", "max"}
    return found


def test_a_hostile_name_is_text_wherever_it_stands() -> None:
    pieces = [
        notebook.text(HOSTILE), notebook.table([HOSTILE], [[HOSTILE]]), notebook.folded(HOSTILE, notebook.text(HOSTILE)),
        notebook.tree(HOSTILE, {HOSTILE: {HOSTILE: [HOSTILE]}, "b": HOSTILE}), notebook.block(HOSTILE),
        notebook.bar(0.5, HOSTILE), notebook.lines([HOSTILE]),
    ]  # fmt: skip
    for piece in pieces:
        assert HOSTILE in read_safely(piece).words


def test_rows_beyond_the_first_few_are_folded() -> None:
    few, many = (notebook.table(["n"], [[i] for i in range(count)]) for count in (8, 100))
    assert "details" not in read_safely(few).tags
    found = read_safely(many)
    assert found.tags.count("details") == 1
    assert "92 more" in found.words
    assert found.tags.index("details") < len(found.tags) - 92


def test_a_long_value_is_cut() -> None:
    assert len(notebook.text("x" * 100_000)) < 300


def test_a_tree_that_is_nested_beyond_all_reason_is_cut() -> None:
    nested: dict[str, Any] = {}
    for _ in range(5_000):
        nested = {HOSTILE: nested or 1}
    found = read_safely(ShownResult({"info": nested})._repr_html_())
    assert 20 < found.tags.count("details") < 50
    assert "…" in found.words


def test_a_result_shows_its_main_numbers_and_folds_the_rest() -> None:
    with Trainer("ppo", env="two_step_game", config={"fcnet_hiddens": [4], "evaluation": {"interval": 0}}) as trainer:
        before = trainer._repr_html_()
        result = trainer.train()
        after = trainer._repr_html_()
    assert isinstance(result, dict)
    html = result._repr_html_()  # type: ignore[attr-defined]
    words = read_safely(html).words
    assert "training_iteration" in words
    outside = re.sub(r"<details>.*</details>", "", html, flags=re.DOTALL)
    assert "episode_reward_mean" in outside
    assert "hostname" not in outside
    assert "hostname" in words
    assert "last result" not in read_safely(before).words
    assert "last result" in read_safely(after).words
    assert "two_step_game" in after


def test_hostile_names_in_results_and_games_and_comparisons_run_nothing() -> None:
    result = ShownResult({"episode_reward_mean": 1.0, "policy_reward_mean": {HOSTILE: 1.0}, HOSTILE: HOSTILE})
    game = MatrixGame(np.zeros((2, 1, 1)), actions=((HOSTILE,), (HOSTILE,)), players=(HOSTILE, "b"), name=HOSTILE)
    trio = MatrixGame(np.zeros((3, 1, 1, 1)), players=(HOSTILE, "b", "c"))
    one = np.array([[1.0, 2.0]])
    curve = Curve(HOSTILE, one, one[0], one[0], one[0])
    pair = Pair(HOSTILE, "b", 0.5, 0.1, 0.9, 0.5, HOSTILE, "")
    comparison = Comparison(HOSTILE, 0.95, np.array([0.0, 10.0]), [curve], [pair], [HOSTILE])
    for shown in (result, game, trio, comparison):
        assert HOSTILE in read_safely(shown._repr_html_()).words


def test_a_game_of_two_shows_its_table() -> None:
    game = MatrixGame(np.array([[[3, 0], [5, 1]], [[3, 5], [0, 1]]]), (("C", "D"), ("C", "D")), ("row", "column"), "pd")
    words = read_safely(game._repr_html_()).words
    for cell in ("3, 3", "0, 5", "5, 0", "1, 1"):
        assert cell in words


def test_a_search_shows_its_best_trial_first(tmp_path: Path) -> None:
    objective = Objective("episode_reward_mean", "max")
    trials = []
    for index, score in enumerate([1.0, 7.0, None]):
        trial = TrialOutcome(index, f"trial_{index}", tmp_path, {"lr": HOSTILE}, {}, "done", "", objective)
        vars(trial)["results"] = [{"episode_reward_mean": score}] if score else []  # as read from its files
        trials.append(trial)
    words = read_safely(Tuning(tmp_path, objective, trials, False)._repr_html_()).words
    assert words.index("trial_1") < words.index("trial_0") < words.index("trial_2")
    assert "<script>" in words


# -- progress ----------------------------------------------------------------------------------------------------------


class Kernel:
    """What a notebook's kernel gives a program: a shell with a kernel, and outputs that can be changed."""

    def __init__(self) -> None:
        self.outputs: list[list[str]] = []
        self.package = ModuleType("IPython")
        self.package.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
        self.module = ModuleType("IPython.display")
        self.module.HTML = str  # type: ignore[attr-defined]
        self.module.display = self.display  # type: ignore[attr-defined]

    def display(self, html: str, display_id: bool) -> Any:
        assert display_id
        versions = [html]
        self.outputs.append(versions)
        return SimpleNamespace(update=versions.append)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    found = Kernel()
    monkeypatch.setitem(sys.modules, "IPython", found.package)
    monkeypatch.setitem(sys.modules, "IPython.display", found.module)
    return found


def test_outside_of_a_kernel_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    terminal = ModuleType("IPython")  # ipython in a terminal has a shell without a kernel
    terminal.get_ipython = lambda: SimpleNamespace()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert not in_notebook()


def test_run_draws_one_output_in_place(kernel: Kernel, tmp_path: Path) -> None:
    keys = {"fcnet_hiddens": [4], "evaluation": {"interval": 0}, "stop": {"training_iteration": 2}}
    with Trainer("ppo", env="two_step_game", config=keys, directory=tmp_path / "run") as trainer:
        trainer.run()
    (versions,) = kernel.outputs
    assert len(versions) >= 2
    last = read_safely(versions[-1])
    assert "100%" in last.words
    assert "reward mean" in last.words
    assert str(tmp_path / "run") in last.words


def test_results_that_come_fast_are_not_all_drawn_but_the_last_is(kernel: Kernel) -> None:
    now = [0.0]
    display = NotebookDisplay(clock=lambda: now[0])
    display.start([HOSTILE])
    for iteration in range(1, 101):
        now[0] += 0.01
        display.update({"training_iteration": iteration, "timesteps_total": iteration}, Progress(iteration / 100, "x"))
    display.note(HOSTILE)
    display.finish(["the end"])
    (versions,) = kernel.outputs
    assert len(versions) < 12
    last = read_safely(versions[-1])
    assert HOSTILE in last.words
    assert "the end" in last.words
    assert "100" in last.words
