"""Code of a user that raises anything anywhere: a message that names it and its line, never a traceback or a silent exit."""

from __future__ import annotations

from pathlib import Path

import pytest

from marl.envs.registry import ENV
from marl.errors import ConfigError
from marl.registry import import_module, load_object
from tests.command import Done, marl

ENV_SOURCE = '''
import numpy as np
from gymnasium import spaces
from marl import MultiAgentEnv

class Stop(BaseException):
    """Neither an Exception nor Ctrl-C."""

def fail(kind):
    raise {"SystemExit": SystemExit(0), "Stop": Stop("enough"), "StopIteration": StopIteration(), "ValueError": ValueError("bad"),
           "RecursionError": RecursionError("deep"), "MemoryError": MemoryError(), "OSError": OSError(28, "No space left")}[kind]

class Env(MultiAgentEnv):
    possible_agents = ("a", "b")

    def __init__(self, config):
        self.where, self.kind, self.t = config.get("where"), config.get("kind"), 0
        self.meet("__init__")

    def meet(self, place):
        if self.where == place:
            fail(self.kind)

    def observation_space(self, agent):
        self.meet("observation_space")
        return spaces.Box(-1, 1, (2,), np.float32)

    def action_space(self, agent):
        self.meet("action_space")
        return spaces.Discrete(2)

    def obs(self):
        return {agent: np.zeros(2, np.float32) for agent in self.possible_agents}

    def reset(self, *, seed=None, options=None):
        self.meet("reset")
        self.t = 0
        return self.obs(), {}

    def step(self, actions):
        self.meet("step")
        self.t += 1
        return self.obs(), {"a": 1.0, "b": 1.0}, {}, {"__all__": self.t == 5}, {}

    def render(self):
        self.meet("render")
        return "picture"

    def get_state(self):
        self.meet("get_state")
        return {"t": self.t}

    def set_state(self, state):
        self.meet("set_state")
        self.t = state["t"]

    def close(self):
        self.meet("close")
        if self.where == "close for ever":
            import time
            time.sleep(60)

def start(info):
    fail("SystemExit")

def mapping(agent, episode):
    fail("Stop")

import torch
from marl.policies.custom import Model

class BadModel(Model):
    def __init__(self, inputs, outputs, config):
        fail("SystemExit")
    def forward(self, features, carry):
        return features, carry
'''
KEYS = ("--stop-iters", 1, "-q", "--local-dir", "out")
ALGO = '{"train_batch_size": 20, "sgd_minibatch_size": 20, "num_sgd_iter": 1, "fcnet_hiddens": [4]'


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture
def env(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A module of its own for every test, as modules are imported once."""
    name = f"odd_world_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(ENV_SOURCE)
    return name


def train(env: str, env_config: str = "{}", more: str = "") -> Done:
    config = f'{ALGO}, "env_config": {env_config}{more}}}'
    return marl("train", "--env", f"{env}:Env", "--config", config, *KEYS)


PLACES = ("__init__", "observation_space", "action_space", "reset", "step", "get_state")


@pytest.mark.parametrize("kind", ["SystemExit", "Stop", "ValueError"])
@pytest.mark.parametrize("place", PLACES)
def test_whatever_an_env_raises_is_told_with_its_line(place: str, kind: str, env: str) -> None:
    done = train(env, f'{{"where": "{place}", "kind": "{kind}"}}')
    assert (done.code, len(done.errors)) == (2, 1), done
    assert kind in done.errors[0]
    assert f"{env}.py:" in done.errors[0]
    assert marl("check", f"{env}:Env", "--config", f'{{"where": "{place}", "kind": "{kind}"}}').code == 2


@pytest.mark.parametrize("kind", ["StopIteration", "RecursionError", "MemoryError", "OSError"])
def test_odd_errors_of_a_step_are_the_envs_own(kind: str, env: str) -> None:
    done = train(env, f'{{"where": "step", "kind": "{kind}"}}')
    assert (done.code, len(done.errors)) == (2, 1), done
    assert f"step raised {kind}" in done.errors[0]


def test_an_env_that_cannot_be_drawn_says_so(env: str) -> None:
    done = train(env, '{"where": "render", "kind": "SystemExit"}', ', "record_env": true')
    assert (done.code, len(done.errors)) == (2, 1), done
    assert "render raised SystemExit" in done.errors[0]


@pytest.mark.parametrize("kind", ["SystemExit", "Stop", "ValueError"])
def test_a_close_that_raises_is_a_warning_and_the_run_ends_in_the_regular_way(
    kind: str, env: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done = train(env, f'{{"where": "close", "kind": "{kind}"}}', ', "num_envs_per_worker": 3')
    assert (done.code, done.errors) == (0, []), done
    assert list(tmp_path.glob("out/*/*/checkpoints/checkpoint_000001/manifest.json"))
    assert f"close() raised {kind}" in caplog.text
    assert "(and 2 more copies)" in caplog.text


def test_a_close_that_raises_does_not_hide_what_went_wrong_before(env: str) -> None:
    (Path(f"{env}.py")).write_text(
        ENV_SOURCE.replace("def close(self):", 'def close(self):\n        raise ValueError("shut")')
    )
    done = train(env, '{"where": "step", "kind": "ValueError"}')
    assert (done.code, len(done.errors)) == (2, 1), done
    assert "step raised ValueError: bad" in done.errors[0]


@pytest.mark.timeout(50)
def test_a_close_that_never_ends_is_given_up_after_env_timeout_s(env: str, caplog: pytest.LogCaptureFixture) -> None:
    Path(f"{env}.py").write_text(ENV_SOURCE.replace("time.sleep(60)", "time.sleep(60 if self.t else 0)"))
    done = train(env, '{"where": "close for ever"}', ', "env_timeout_s": 0.5, "train_batch_size": 18')
    assert (done.code, done.errors) == (0, []), done
    assert "close took longer than env_timeout_s = 0.5 s" in caplog.text


@pytest.mark.parametrize(
    ("more", "named"),
    [(', "callbacks": {"on_train_result": "WORLD:start"}', "on_train_result failed"), (', "custom_model": "WORLD:BadModel"', "BadModel"),
     (', "policies": {"one": {}}, "policy_mapping_fn": "WORLD:mapping"', "policy_mapping_fn")],
    ids=["callback", "model", "mapping"],
)  # fmt: skip
def test_callbacks_models_and_mappers_that_exit_are_named(more: str, named: str, env: str) -> None:
    done = train(env, "{}", more.replace("WORLD", env))
    assert (done.code, len(done.errors)) == (2, 1), done
    assert named in done.errors[0]


IMPORTS = {
    "SystemExit": ("import sys\nsys.exit(0)", "SystemExit: 0 (at "),
    "own": ("class Stop(BaseException): pass\nraise Stop('no')", "Stop: no (at "),
    "SyntaxError": ("x = = 1", "SyntaxError"),
    "RecursionError": ("def f(): f()\nf()", "RecursionError"),
    "warning": ("import warnings\nwarnings.simplefilter('error')\nwarnings.warn('old')", "UserWarning: old (at "),
    "ImportError": ("import there_is_no_such_module", "there_is_no_such_module"),
    "below": ("from json import there_is_no_such_name", "there_is_no_such_name"),
    "ZeroDivisionError": ("x = 1\ny = x / 0", ".py:2: y = x / 0)"),
    "NUL": ("x = '\0'", "SyntaxError|ValueError"),
}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("case", list(IMPORTS))
def test_a_module_that_fails_at_import_is_named_with_its_error_and_line(case: str, tmp_path: Path) -> None:
    content, said = IMPORTS[case]
    name = f"odd_module_{case}"
    (tmp_path / f"{name}.py").write_text(content)
    done = marl("train", "--env", f"{name}:Env", "--run", "PPO", *KEYS)
    assert (done.code, len(done.errors)) == (2, 1), done
    assert repr(name) in done.errors[0]
    assert any(word in done.errors[0] for word in said.split("|")), done.errors[0]
    with pytest.raises(ConfigError):
        import_module(name, "imports")


def test_ctrl_c_during_an_import_stays_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "odd_interrupted.py").write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load_object("odd_interrupted:Env", ENV)


def test_a_misspelled_module_still_asks_for_the_spelling() -> None:
    with pytest.raises(
        ConfigError, match=r"cannot import 'no_such_module' \(No module named 'no_such_module'\)\. Check the"
    ):
        load_object("no_such_module:Env", ENV)
