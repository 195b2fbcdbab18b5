"""Whatever fails in the user's own code is told in one message with its file and line; the traceback is there for who asks."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.command import Done, marl

CODE = """
import gymnasium as gym
import numpy as np
from marl import Callbacks, Model
from marl.algos.central_critic.learner import CentralCriticLearner

class Learner(CentralCriticLearner):
    'ppo that fails in its second iteration.'
    like = "ppo"
    asked = 0

    def learn(self, batch):
        self.asked += 1
        if self.asked == 2:
            return {}["nothing"]  # the line
        return super().learn(batch)

class Broken(Model):
    def forward(self, features, carry):
        return features @ features, carry  # the line

class Hooks(Callbacks):
    def on_train_result(self, **info):
        1 / 0  # the line

class World(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return self.missing  # the line
"""
SMALL = (
    "--set",
    "train_batch_size=32",
    "--set",
    "sgd_minibatch_size=32",
    "--set",
    "fcnet_hiddens=4",
    "--stop-iters",
    "3",
)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A module of its own for each test, as Python keeps what it has imported."""
    name = "own_" + request.node.name.replace("[", "_").rstrip("]").lower()
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(CODE))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return name


def train(*more: str) -> Done:
    return marl("train", "--env", "CartPole-v1", "--local-dir", "out", "--checkpoint-freq", "1", *SMALL, *more)


def line_of(module: str, number: int) -> str:
    """``FILE:LINE`` of the number-th line that is marked."""
    lines = Path(f"{module}.py").read_text().splitlines()
    marked = [place for place, line in enumerate(lines, 1) if line.endswith("# the line")]
    return f"{module}.py:{marked[number]}"


@pytest.mark.parametrize(
    ("words", "number", "told"),
    [
        (("--run", "{}:Learner"), 0, "your code raised KeyError: 'nothing' (at "),
        (("--set", "custom_model={}:Broken"), 1, "custom model Broken failed on two rows of zeros"),
        (("--set", "callbacks={}:Hooks"), 2, "callback Hooks.on_train_result failed"),
        (("--env", "{}:World"), 3, "step raised AttributeError"),
    ],
    ids=["learner", "model", "callback", "env"],
)
def test_one_message_names_file_and_line(words: tuple[str, str], number: int, told: str, module: str) -> None:
    done = train(*(word.format(module) for word in words))
    assert done.code == 2, done.err
    assert len(done.errors) == 1
    assert told in done.err
    assert line_of(module, number) in done.err
    assert "Traceback" not in done.err
    assert "The whole traceback: the same command with --debug." in done.err


@pytest.mark.parametrize("place", ["before", "behind"])
def test_debug_prints_the_whole_traceback_wherever_it_stands(place: str, module: str) -> None:
    words = ["train", "--env", f"{module}:World", "--local-dir", "out", *SMALL]
    done = marl(*(["--debug", *words] if place == "before" else [*words, "--debug"]))
    assert done.code == 2
    assert "Traceback (most recent call last)" in done.err
    assert "return self.missing  # the line" in done.err
    assert len(done.errors) == 1


def test_a_run_that_has_results_keeps_the_traceback_beside_them(module: str) -> None:
    done = train("--run", f"{module}:Learner")
    directory = Path(done.out.splitlines()[-1].removeprefix("results: "))
    assert f"traceback: {directory / 'error.txt'}" in done.out
    kept = (directory / "error.txt").read_text()
    assert kept.startswith("Traceback")
    assert line_of(module, 0).partition(":")[0] in kept
    assert "KeyError: 'nothing'" in kept


def test_a_mistake_without_code_of_the_users_offers_no_traceback() -> None:
    done = marl("run", "no_such_file.yaml")
    assert done.code == 2
    assert "--debug" not in done.err
