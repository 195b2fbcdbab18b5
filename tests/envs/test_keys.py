"""``marl config ENV``: the keys of an env, from its config class or from what its creator takes."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from gymnasium import spaces
from pydantic import Field

import marl
from marl.config import Config
from marl.envs import catalog
from marl.envs.keys import keys_of_env
from marl.envs.registry import resolve_env
from tests.command import marl as run_marl

GAMES = [
    "two_step_game",
    "matrix_game",
    "kuhn_poker",
    "leduc_poker",
    "liars_dice",
    "phantom_ttt",
    "dark_hex",
    "tic_tac_toe",
    "connect_four",
    "nim",
    "battleship",
    "goofspiel",
    "tiny_hanabi",
    "congestion",
    "graphical_game",
    "traffic",
    "windy_maze",
    "key_door",
    "repeat_after_delay",
    "copies",
]


class TugConfig(Config):
    length: int = Field(3, description="How far the rope has to be pulled.")


class Tug(marl.MultiAgentEnv):
    """A user's env that declares its keys."""

    config_class = TugConfig
    possible_agents = ("left", "right")
    observation_space: Any = spaces.Discrete(2)
    action_space: Any = spaces.Discrete(2)

    def __init__(self, config: Any) -> None:
        self.keys = TugConfig(**config)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return dict.fromkeys(self.possible_agents, 0), {}

    def step(self, actions: Any) -> Any:
        return {}, {}, {"__all__": True}, {}, {}


def told(env: str) -> list[str]:
    done = run_marl("config", env)
    assert done.code == 0, done.err
    first, *lines = done.out.splitlines()
    assert first == f"keys of `env_config:` for `env: {env}`"
    return [line.strip() for line in lines]


OURS = [
    *GAMES, "fast:lbf", "fast:rware", "fast:overcooked",
    "fast:simple_tag", "fast:simple_spread", "fast:simple_speaker_listener", "fast:simple_adversary", "fast:simple_push",
    "fast:simple_crypto", "fast:simple_reference", "fast:simple_world_comm",
]  # fmt: skip


def test_every_env_of_ours_is_tried() -> None:
    text = inspect.getsource(catalog)
    assert set(re.findall(r'register_built_in\("(\w+)"', text)) == set(GAMES)
    assert {f"fast:{name}" for name in catalog.FAST} == set(OURS) - set(GAMES)


@pytest.mark.parametrize("env", OURS)
def test_every_env_of_ours_lists_the_keys_that_it_takes(env: str) -> None:
    config = keys_of_env(env).config
    assert config is not None
    lines = told(env)
    assert [line.partition(" ")[0] for line in lines] == list(config.model_fields)
    assert config is resolve_env(env).config_class  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("env", "line"),
    [
        ("two_step_game", "hide_branch (true/false, default false): Agents do not see in which branch they are"),
        ("CartPole-v1", "sutton_barto_reward (bool, default false)"),
        ("pettingzoo:mpe2/simple_spread_v3", "N (int, default 3)"),
        ("mpe2.simple_tag_v3:parallel_env", "num_good (int, default 1)"),
        ("lbforaging:Foraging-8x8-2p-2f-v3", "players (default 2)"),
        ("openspiel:kuhn_poker", "players (default 2)"),
        ("vmas:balance", "and others, which it hands on"),
        ("tests.envs.stand_ins.robots_v1:parallel_env", "scenario (str, required)"),
        ("tests.envs.stand_ins.warehouse:stand-in-warehouse-2ag-v1", "n_agents (int, default 2)"),
        ("tests.envs.test_creators:OfRequiredKeywords", "name (str, required)"),
        ("tests.envs.test_creators:Corridor", "all of it is given to it as one dict, config;"),
        ("tests.envs.test_creators:always_two_prey", "none"),
        ("tests.envs.test_keys:Tug", "length (integer, default 3): How far the rope has to be pulled."),
    ],
)
def test_the_keys_of_an_env_are_listed(env: str, line: str) -> None:
    assert any(told_line.startswith(line) for told_line in told(env))


def test_an_algorithm_is_still_listed_and_a_wrong_name_told() -> None:
    assert run_marl("config", "qmix").out.startswith("qmix: ")
    wrong = run_marl("config", "CartPol-v1")
    assert wrong.code == 2
    assert "neither an algorithm" in wrong.err
    assert "Did you mean 'CartPole-v1'" in wrong.err
    assert "cannot import 'nowhere'" in run_marl("config", "nowhere:Env").err
