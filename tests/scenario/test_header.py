"""What a run says about itself."""

from __future__ import annotations

from typing import Any

import pytest

from marl import Trainer
from marl.envs.registry import register_env, register_pettingzoo, resolve_env
from marl.errors import ConfigError, EnvError
from marl.scenario.load import compose
from marl.scenario.resolve import resolve


def header(**keys: Any) -> str:
    return "\n".join(resolve(compose({"algo": "ppo", "fcnet_hiddens": [8], **keys})).header)


def test_the_state_is_named_only_where_somebody_uses_it() -> None:
    assert "state of" not in header(env="two_step_game")
    assert "state of 3" in header(env="two_step_game", algo="qmix")


def test_seats_of_agents_that_come_and_go_are_a_limit() -> None:
    assert "(car_* x up to 8, traffic_light_* x up to 2)" in header(env="traffic", env_config={"max_cars": 8})
    assert "up to" not in header(env="two_step_game")


def test_frozen_and_loaded_policies_are_named(tmp_path: Any) -> None:
    keys = {"env": "two_step_game", "policy_mapping_fn": "per_agent", "fcnet_hiddens": [8]}
    with Trainer("ppo", config=keys) as trainer:
        folder = trainer.save(tmp_path / "checkpoint")
    text = header(**keys, policies_to_train=["agent_0"], load={"agent_1": str(folder)})
    assert "frozen: agent_1" in text
    assert f"loaded: agent_1 from {folder}" in text


def test_a_wrapped_native_env_says_that_it_is_slower() -> None:
    wrapped = header(env="fast:simple_spread", wrappers=[{"frame_stack_v1": {"stack_size": 2}}])
    assert "stepped one by one" in wrapped
    assert "one by one" not in header(env="fast:simple_spread")
    assert "one by one" not in header(env="pettingzoo:mpe2/simple_spread_v3", wrappers=["pad_observations_v0"])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"policy_mapping_fn": "level"}, "unknown policy_mapping_fn 'level'. Did you mean 'levels'"),
        ({"wrappers": [{"frame_stack_v1": 2}]}, "wrapper 'frame_stack_v1' has the keys 2. Expected names and values"),
        ({"shared": {"encodr": "t"}}, "shared: 'encodr' cannot be shared; expected encoder: NAME"),
        ({"env": object()}, "got an object of type object. Give its class"),
        (
            {
                "env": "windy_maze",
                "wrappers": [{"hierarchy": {"levels": [{"name": "top_level"}, {"name": "low_level"}]}}],
            },
            r"^hierarchy: level 'top_level' commands, so it needs horizon and goals\.$",
        ),
        ({"env": "fast:simple_sprea"}, "Did you mean 'fast:simple_spread'"),
        ({"env": "petingzoo:classic/tictactoe_v3"}, "Did you mean 'pettingzoo:classic/tictactoe_v3'"),
    ],
)
def test_mistakes_are_said_in_our_own_words(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        header(**{"env": "two_step_game", **keys})


def test_what_is_no_creator_is_refused_when_it_is_registered() -> None:
    with pytest.raises(ConfigError, match="registered with an object of type dict"):
        register_env("no_creator", {})  # type: ignore[arg-type]
    from pettingzoo.classic import tictactoe_v3

    register_pettingzoo("by_module", tictactoe_v3)
    assert resolve_env("by_module")({}).possible_agents == ("player_1", "player_2")


def test_a_creator_that_fails_shows_the_line() -> None:
    def create(config: Any) -> Any:
        return config["missing"]

    with pytest.raises(EnvError, match=r"could not be built: KeyError: 'missing' \(at .*test_header.py:\d+, in create"):
        header(env=create)
