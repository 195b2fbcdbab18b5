"""How the env_config reaches a user's class or function: as one dict, as keywords, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from mpe2 import simple_tag_v3
from pettingzoo import ParallelEnv

from marl.envs.adapters.pettingzoo import PettingZooParallelEnv, PettingZooTurnBasedEnv
from marl.envs.base import EnvContext, MultiAgentEnv
from marl.envs.registry import ENVS, make_batched_env, make_env, register_pettingzoo, resolve_env
from marl.errors import ConfigError, UnknownNameError
from marl.training.trainer import Trainer

HERE = "tests.envs.test_creators"
TWO_PREY = {"num_good": 2, "max_cycles": 7}


def tag(render_mode: str | None = None, num_good: int = 1, max_cycles: int = 25) -> Any:
    """A PettingZoo creator with named parameters."""
    return simple_tag_v3.parallel_env(render_mode=render_mode, num_good=num_good, max_cycles=max_cycles)


def tag_in_turns(**kwargs: Any) -> Any:
    """A PettingZoo creator that hands everything on."""
    return simple_tag_v3.env(**kwargs)


def always_two_prey() -> Any:
    return simple_tag_v3.parallel_env(num_good=2)


def from_dict(settings: dict[str, Any]) -> Any:
    return simple_tag_v3.parallel_env(**settings)


def from_optional_config(config: Any = None, num_good: int = 99) -> Any:
    assert num_good == 99
    return simple_tag_v3.parallel_env(**(config or {}))


def from_annotated(given: Mapping[str, Any] | None = None) -> Any:
    return simple_tag_v3.parallel_env(**(given or {}))


class FromContext(PettingZooParallelEnv):
    """A class that takes the config, and asks it where it lives."""

    def __init__(self, config: EnvContext) -> None:
        super().__init__(simple_tag_v3.parallel_env(num_good=config["num_good"]))
        self.place = (config.worker_index, config.vector_index)


class Corridor(gym.Env[Any, Any]):
    """A Gymnasium class as RLlib's examples write it: one dict."""

    observation_space = spaces.Box(0.0, 100.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, config: Any) -> None:
        self.end = config.get("corridor_length", 3)
        self.worker = getattr(config, "worker_index", None)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += int(action)
        return np.array([self.place], np.float32), -0.1, self.place >= self.end, False, {}


class OfEnvConfig(Corridor):
    def __init__(self, env_config: Any = None) -> None:
        super().__init__(env_config or {})


class OfAKeywordOnlyConfig(Corridor):
    def __init__(self, *, env_config: Any) -> None:
        super().__init__(env_config)


class OfKeywords(Corridor):
    def __init__(self, corridor_length: int = 3, render_mode: str | None = None) -> None:
        super().__init__({"corridor_length": corridor_length})


class OfRequiredKeywords(Corridor):
    def __init__(self, corridor_length: int, name: str) -> None:
        assert name == "long"
        super().__init__({"corridor_length": corridor_length})


class OfOneRequiredKeyword(Corridor):
    def __init__(self, corridor_length: int) -> None:
        super().__init__({"corridor_length": corridor_length})


class OfDrawnConfig(Corridor):
    """Takes a config, and beside it what Gymnasium gives an env that is to be drawn."""

    def __init__(self, config: Any, render_mode: str | None = None) -> None:
        super().__init__(config)
        self.render_mode = render_mode


class ParallelOfConfig(ParallelEnv):
    """A PettingZoo class of one dict."""

    metadata: dict[str, Any] = {"name": "of_config"}  # noqa: RUF012

    def __init__(self, env_config: Any) -> None:
        self.possible_agents = [f"car_{i}" for i in range(env_config["cars"])]

    def observation_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents = list(self.possible_agents)
        return dict.fromkeys(self.agents, 0), {a: {} for a in self.agents}

    def step(self, actions: Any) -> Any:
        agents, self.agents = self.agents, []
        return (
            dict.fromkeys(agents, 1),
            dict.fromkeys(agents, 1.0),
            dict.fromkeys(agents, True),
            dict.fromkeys(agents, False),
            {a: {} for a in agents},
        )


class ParallelOfRequiredKeywords(ParallelOfConfig):
    def __init__(self, cars: int, colour: str) -> None:
        assert colour == "red"
        super().__init__({"cars": cars})


def many_ways(*args: Any, **kwargs: Any) -> Any:
    """What a decorator makes of a PettingZoo function."""
    assert not args
    return simple_tag_v3.parallel_env(**kwargs)


@pytest.mark.parametrize(
    "env", [Corridor, OfEnvConfig, OfAKeywordOnlyConfig, OfKeywords, OfOneRequiredKeyword], ids=lambda c: c.__name__
)
def test_a_gymnasium_class_gets_the_env_config_in_its_own_way(env: type[Corridor]) -> None:
    made = make_env(f"{HERE}:{env.__name__}", {"corridor_length": 7})
    assert made.users_env.end == 7  # type: ignore[attr-defined]
    assert make_env(env, {"corridor_length": 7}).users_env.end == 7  # type: ignore[attr-defined]


def test_a_gymnasium_class_that_takes_the_config_knows_its_worker() -> None:
    env = make_batched_env(Corridor, 1, {}, worker_index=5)
    assert env.sub_env(0).worker == 5  # type: ignore[attr-defined]


def test_required_keywords_come_from_the_env_config_and_missing_ones_are_named() -> None:
    config = {"corridor_length": 7, "name": "long"}
    assert make_env(OfRequiredKeywords, config).users_env.end == 7  # type: ignore[attr-defined]
    with pytest.raises(
        ConfigError, match=r"'OfRequiredKeywords' cannot be built without name\. Write env_config: \{name: \.\.\.\}"
    ):
        make_env(OfRequiredKeywords, {"corridor_length": 7})
    with pytest.raises(ConfigError, match="without corridor_length"):
        make_env(OfOneRequiredKeyword)


def test_a_class_of_a_config_is_told_to_draw_where_it_takes_a_render_mode() -> None:
    env = make_batched_env(OfDrawnConfig, 1, {}, render_mode="rgb_array")
    assert env.sub_env(0).render_mode == "rgb_array"  # type: ignore[attr-defined]


def test_a_pettingzoo_class_gets_one_dict_or_required_keywords() -> None:
    assert make_env(ParallelOfConfig, {"cars": 3}).possible_agents == ("car_0", "car_1", "car_2")
    assert make_env(ParallelOfRequiredKeywords, {"cars": 2, "colour": "red"}).possible_agents == ("car_0", "car_1")
    with pytest.raises(ConfigError, match="without colour"):
        make_env(ParallelOfRequiredKeywords, {"cars": 2})


def test_a_creator_of_anything_gets_keywords() -> None:
    assert prey(make_env(many_ways, TWO_PREY)) == 2


def test_a_registered_pettingzoo_function_may_take_one_dict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ENVS, "_items", dict(ENVS._items))
    register_pettingzoo("tag_of_dict", lambda config: simple_tag_v3.parallel_env(num_good=config["prey"]))
    assert prey(make_env("tag_of_dict", {"prey": 2})) == 2


def test_a_gymnasium_class_of_one_dict_trains() -> None:
    keys = {"env_config": {"corridor_length": 2}, "fcnet_hiddens": [4], "train_batch_size": 40, "horizon": 10}
    with Trainer("ppo", env=Corridor, config=keys) as trainer:
        assert trainer.train()["episode_len_mean"] >= 2


def prey(env: MultiAgentEnv) -> int:
    return sum(agent.startswith("agent") for agent in env.possible_agents)


@pytest.mark.parametrize("creator", [tag, from_dict, from_optional_config, from_annotated], ids=lambda c: c.__name__)
def test_a_parallel_creator_gets_the_env_config_in_its_own_way(creator: Callable[..., Any]) -> None:
    env = make_env(f"{HERE}:{creator.__name__}", TWO_PREY)
    assert isinstance(env, PettingZooParallelEnv)
    assert prey(env) == 2
    assert prey(make_env(creator)) == 1  # an empty env_config leaves the defaults


def test_a_creator_of_keywords_alone_gets_the_env_config_as_keywords() -> None:
    env = make_env(f"{HERE}:tag_in_turns", TWO_PREY)
    assert isinstance(env, PettingZooTurnBasedEnv)
    assert prey(env) == 2


def test_pettingzoos_own_functions_are_loaded_by_their_path() -> None:
    assert prey(make_env("mpe2.simple_tag_v3:parallel_env", TWO_PREY)) == 2
    assert isinstance(make_env("mpe2.simple_tag_v3:env", TWO_PREY), PettingZooTurnBasedEnv)
    assert isinstance(make_env("pettingzoo.classic.tictactoe_v3:env"), PettingZooTurnBasedEnv)


def test_a_class_that_takes_the_config_knows_its_worker_and_copy() -> None:
    env = make_batched_env(f"{HERE}:FromContext", 3, {"num_good": 2}, worker_index=5)
    assert [env.sub_env(i).place for i in range(3)] == [(5, 0), (5, 1), (5, 2)]  # type: ignore[attr-defined]


def test_a_creator_without_parameters_refuses_an_env_config_instead_of_dropping_it() -> None:
    assert prey(make_env(f"{HERE}:always_two_prey")) == 2
    with pytest.raises(ConfigError, match=r"num_good.*Check env_config"):
        make_env(f"{HERE}:always_two_prey", {"num_good": 3})


def test_a_misspelt_keyword_is_named() -> None:
    with pytest.raises(ConfigError, match="num_goood"):
        make_env(f"{HERE}:tag", {"num_goood": 2})


def test_a_users_pettingzoo_function_trains_with_its_env_config() -> None:
    keys = {"env_config": TWO_PREY, "fcnet_hiddens": [8], "train_batch_size": 28}
    with Trainer("ppo", env=f"{HERE}:tag", config=keys) as trainer:
        result = trainer.train()
    assert result["episode_len_mean"] == 7.0
    assert set(result["agent_reward_mean"]) == {*(f"adversary_{i}" for i in range(3)), "agent_0", "agent_1"}


def test_an_unknown_name_behind_a_known_prefix_is_answered_with_the_names_there() -> None:
    with pytest.raises(
        UnknownNameError, match=r"no env 'fast:x'. Known: fast:.*, fast:simple_speaker_listener, fast:simple_spread"
    ):
        resolve_env("fast:x")
