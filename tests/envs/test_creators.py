"""How the env_config reaches a user's class or function: as one dict, as keywords, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from mpe2 import simple_tag_v3

from marl.envs.adapters.pettingzoo import PettingZooParallelEnv, PettingZooTurnBasedEnv
from marl.envs.base import EnvContext, MultiAgentEnv
from marl.envs.registry import make_batched_env, make_env, resolve_env
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
        UnknownNameError, match=r"no env 'fast:x'. Known: fast:simple_speaker_listener, fast:simple_spread"
    ):
        resolve_env("fast:x")
