"""What can be added without an edit in marl: each in a module of its own, which a run or a report then uses."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from marl.algos.presets import ALGOS
from marl.envs.families import ENV_FAMILIES, register_env_family
from marl.envs.registry import make_env
from marl.errors import ConfigError, UnknownNameError, UserError
from marl.populations.kinds import POPULATIONS, register_population
from marl.populations.meta_solvers import META_SOLVERS
from marl.registry import Registry, only_modules
from marl.scenario.load import compose
from marl.scenario.reference import scenario_keys
from marl.scenario.schema import scenario_schema
from marl.training.trainer import Trainer

Write = Callable[[str, str], str]
REGISTRIES: tuple[Registry[Any], ...] = (ALGOS, POPULATIONS, META_SOLVERS, ENV_FAMILIES)
RPS: dict[str, Any] = {
    "env": "matrix_game", "env_config": {"game": "rock_paper_scissors"}, "train_batch_size": 64, "sgd_minibatch_size": 32,
    "num_sgd_iter": 1, "fcnet_hiddens": [4], "num_envs_per_worker": 16, "evaluation": {"interval": 0},
}  # fmt: skip


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a module of the user's own to the working directory; what it registers is forgotten after the test."""
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "_items", dict(registry._items))
        monkeypatch.setattr(registry, "_added", set(registry._added))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    written = []

    def write(name: str, code: str) -> str:
        (tmp_path / f"{name}.py").write_text(dedent(code), encoding="utf-8")
        importlib.invalidate_caches()
        written.append(name)
        return name

    yield write
    for name in written:
        sys.modules.pop(name, None)


# -- populations ---------------------------------------------------------------------------------------------------


OLDEST = """
    import numpy as np
    import marl

    class Oldest(marl.PopulationKind):
        description = "the very first snapshot"
        keys = ("window",)

        def answer(self, round_end):
            return round_end.even()

        def opponents(self, round_end, learner, foe, answer):
            return np.eye(round_end.size(foe))[0]

    marl.register_population("oldest", Oldest)
"""


def test_a_population_kind_decides_whom_a_learner_meets(module: Write) -> None:
    population = {"kind": "Oldest", "round_timesteps": 64, "window": 2}
    keys = {**RPS, "imports": [module("own_kind", OLDEST)], "population": population}
    with Trainer("ppo", config=keys) as trainer:
        trainer.train()
        trainer.train()
        assert trainer.population is not None
        met = trainer.population.mixture("player_1.against.player_0").chances.tolist()
        answer = trainer.population.numbers["meta_strategy"]["player_0"]
        assert trainer.population.as_json()["kind"] == "oldest"
    assert met == [1.0, 0.0, 0.0]
    assert answer == pytest.approx([1 / 3] * 3)


def test_help_schema_and_messages_know_a_kind_from_outside(module: Write) -> None:
    compose({**RPS, "imports": [module("own_kind", OLDEST)]})
    assert "oldest: the very first snapshot." in scenario_keys()
    assert "self_play: the newest snapshots." in scenario_keys()
    enum = scenario_schema()["$defs"]["PopulationConfig"]["properties"]["kind"]["enum"]
    assert enum == ["self_play", "fictitious", "prioritised", "league", "psro", "oldest"]
    for population, message in (
        ({"kind": "oldst"}, r"population\.kind: unknown population kind 'oldst'.*Did you mean 'oldest'\?"),
        ({"kind": "psro", "window": 2}, "window means nothing to psro, only to self_play, oldest; drop it"),
        ({"kind": "oldest", "matches": 9}, "oldest needs no payoff table"),
    ):
        with pytest.raises(ConfigError, match=message):
            compose({**RPS, "population": population})


def test_a_kind_that_fails_or_says_no_chances_is_named(module: Write) -> None:
    name = module(
        "own_kind",
        """
        import marl

        class Wrong(marl.PopulationKind):
            def answer(self, round_end):
                return [[0.5] * round_end.size(side) for side in round_end.layout.sides]

        class Broken(marl.PopulationKind):
            def opponents(self, round_end, learner, foe, answer):
                return 1 / 0

        marl.register_population("wrong", Wrong)
        marl.register_population("broken", Broken)
        """,
    )
    for kind, message in (
        ("wrong", r"'wrong': answer says \[0\.5 0\.5 0\.5\] for the population 'player_0'; expected 3 chances"),
        ("broken", r"'broken'\.opponents failed: ZeroDivisionError.*own_kind\.py:\d+, in opponents: return 1 / 0"),
    ):
        keys = {**RPS, "imports": [name], "population": {"kind": kind, "round_timesteps": 64}}
        with Trainer("ppo", config=keys) as trainer, pytest.raises(UserError, match=message):
            trainer.train()
            trainer.train()


def test_what_is_no_kind_and_what_is_built_in_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"expected a class derived from marl\.PopulationKind"):
        register_population("odd", dict)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="the population kind 'psro' is built in already"):
        register_population("psro", POPULATIONS["psro"])
    with pytest.raises(ConfigError, match="expected a word"):
        register_population("my:kind", POPULATIONS["psro"])


# -- meta-solvers --------------------------------------------------------------------------------------------------


def test_a_meta_solver_gives_the_mixture_to_respond_to(module: Write) -> None:
    name = module(
        "own_solver",
        """
        import numpy as np
        import marl

        def last_but_one(payoffs, config):
            assert payoffs.mean.shape[0] == 2 and config.alpha == 3
            sizes = payoffs.mean.shape[1:]
            return [np.eye(size)[-2] for size in sizes]

        marl.register_meta_solver("last_but_one", last_but_one, keys=["alpha"])
        """,
    )
    population = {"kind": "psro", "meta_solver": "last_but_one", "alpha": 3, "round_timesteps": 64, "matches": 2}
    with Trainer("ppo", config={**RPS, "imports": [name], "population": population}) as trainer:
        trainer.train()
        trainer.train()
        assert trainer.population is not None
        assert trainer.population.mixture("player_1.against.player_0").chances.tolist() == [0.0, 1.0, 0.0]
    with pytest.raises(ConfigError, match=r"unknown meta_solver 'last_but_two'.*Did you mean 'last_but_one'"):
        compose({**RPS, "population": {"kind": "psro", "meta_solver": "last_but_two"}})
    with pytest.raises(ConfigError, match="alpha needs meta_solver: alpha_rank or last_but_one"):
        compose({**RPS, "population": {"kind": "psro", "alpha": 3}})


# -- families of envs ----------------------------------------------------------------------------------------------


LINES = """
    import functools
    import gymnasium as gym
    import marl
    from marl.errors import ConfigError

    class Line(marl.MultiAgentEnv):
        possible_agents = ("walker",)

        def __init__(self, length, env_config):
            self.length = length
            if env_config.get("map_file"):
                raise AssertionError("followed")

        def observation_space(self, agent):
            return gym.spaces.Discrete(self.length + 1)

        def action_space(self, agent):
            return gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.at = 0
            return {"walker": 0}, {}

        def step(self, actions):
            self.at += 1
            done = {"__all__": self.at == self.length}
            return {"walker": self.at}, {"walker": 1.0}, done, {"__all__": False}, {}

    def line(name):
        if name == "odd":
            return 3
        if not name.isdigit():
            raise ConfigError(f"a line is as long as a number, not {name!r}")
        return functools.partial(Line, int(name))

    marl.register_env_family("line", line, form="LENGTH")
"""
SMALL: dict[str, Any] = {
    "train_batch_size": 32,
    "sgd_minibatch_size": 32,
    "fcnet_hiddens": [4],
    "evaluation": {"interval": 0},
}


def test_a_family_of_envs_builds_what_stands_behind_its_prefix(module: Write) -> None:
    keys = {**SMALL, "imports": [module("own_lines", LINES)], "num_sgd_iter": 1}
    for length in (3, 5):
        with Trainer("ppo", env=f"line:{length}", config=keys) as trainer:
            assert trainer.train()["episode_reward_mean"] == length
    with pytest.raises(ConfigError, match="a line is as long as a number, not 'x'"):
        Trainer("ppo", env="line:x", config=keys)
    with pytest.raises(ConfigError, match="its family gave a int; expected a class or a function"):
        Trainer("ppo", env="line:odd", config=keys)
    with pytest.raises(ConfigError, match=r"Did you mean 'line:3'\?"):
        Trainer("ppo", env="lines:3", config=keys)
    with pytest.raises(UnknownNameError, match=r"pettingzoo:family/name_vN, .*, line:LENGTH, package\.module:Class"):
        Trainer("ppo", env="liner", config=keys)


@pytest.mark.ray
def test_workers_on_ray_know_a_family_that_the_program_registered(module: Write, ray_session: None) -> None:
    path = module("own_lines", LINES)
    exec(compile(Path(f"{path}.py").read_text("utf-8"), "program", "exec"), {"__name__": "__main__"})
    with Trainer("ppo", env="line:4", config={**SMALL, "num_workers": 1, "num_sgd_iter": 1}) as trainer:
        assert trainer.train()["episode_reward_mean"] == 4


def test_a_stranger_s_file_reaches_registered_families_alone_and_no_places_through_them(module: Write) -> None:
    compose({"env": "two_step_game", "imports": [module("own_lines", LINES)]})
    with only_modules(frozenset()):
        assert make_env("line:3", {"colour": "red"}).possible_agents == ("walker",)
        with pytest.raises(ConfigError, match="A place that stands in a file is not followed"):
            make_env("line:3", {"map_file": "/etc/passwd"})
        with pytest.raises(ConfigError, match="would use the module 'own_lines', which was not allowed"):
            make_env("own_lines:Line")


def test_the_five_families_of_marl_are_registered_in_the_same_way_and_stay() -> None:
    assert ENV_FAMILIES.names[:5] == ["pettingzoo", "fast", "vmas", "openspiel", "lbforaging"]
    with pytest.raises(
        UnknownNameError, match=r"there is no env 'fast:simple_spred'.*Did you mean 'fast:simple_spread'"
    ):
        make_env("fast:simple_spred")
    with pytest.raises(ConfigError, match="the env family 'vmas' is built in already"):
        register_env_family("vmas", dict)
