"""Particle envs of mpe2 are stepped without looking twice: they show and pay what PettingZoo's own conversion does."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from pettingzoo.utils import BaseWrapper
from pettingzoo.utils.conversions import aec_to_parallel

from marl.envs.adapters.pettingzoo import PettingZooParallelEnv
from marl.envs.adapters.pettingzoo_rounds import looks_twice, play_round

GAMES = ("simple_spread_v3", "simple_tag_v3", "simple_speaker_listener_v4", "simple_crypto_v3", "simple_adversary_v3")


def make(game: str, **keys: Any) -> Any:
    return importlib.import_module(f"mpe2.{game}").parallel_env(max_cycles=4, **keys)


@pytest.mark.parametrize("keys", [{}, {"continuous_actions": True}])
@pytest.mark.parametrize("game", GAMES)
def test_a_round_is_what_the_conversion_plays(game: str, keys: dict[str, Any]) -> None:
    theirs, ours = make(game, **keys), make(game, **keys)
    assert looks_twice(ours)
    for env in (theirs, ours):
        env.reset(seed=7)
    for agent in theirs.agents:
        theirs.action_space(agent).seed(1)
    ended = False
    while not ended:
        actions = {agent: theirs.action_space(agent).sample() for agent in theirs.agents}
        for expected, found in zip(theirs.step(actions), play_round(ours, actions), strict=True):
            assert dict(expected).keys() == found.keys()
            for agent, value in expected.items():
                np.testing.assert_array_equal(value, found[agent])
        assert theirs.agents == ours.agents
        ended = not ours.agents


def test_everybody_looks_once_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    env = PettingZooParallelEnv(make("simple_spread_v3"))
    env.reset(seed=0)
    bare = env.env.unwrapped
    look, seen = bare.observe, []
    monkeypatch.setattr(bare, "observe", lambda agent: (seen.append(agent), look(agent))[1])
    env.step(dict.fromkeys(env.possible_agents, 0))
    assert seen == list(env.possible_agents)


def test_envs_with_other_wrappers_or_of_others_are_stepped_by_themselves() -> None:
    env = make("simple_spread_v3")

    class Around:
        aec_env = env.aec_env
        unwrapped = env.unwrapped

    assert not looks_twice(Around())
    assert not looks_twice(importlib.import_module("pettingzoo.classic.rps_v2").parallel_env())


class SeesSevens(BaseWrapper):  # type: ignore[misc]
    """A wrapper of the user's around the turn-based env, inside of the conversion."""

    def observe(self, agent: str) -> Any:
        return super().observe(agent) * 0 + 7


def test_what_wrappers_inside_of_the_conversion_show_is_what_agents_see() -> None:
    turns = importlib.import_module("mpe2.simple_spread_v3").env(max_cycles=4)
    env = PettingZooParallelEnv(aec_to_parallel(SeesSevens(turns)))
    first, _ = env.reset(seed=0)
    later = env.step(dict.fromkeys(env.possible_agents, 0)).obs
    for obs in (first, later):
        assert {float(number) for seen in obs.values() for number in seen} == {7.0}


def test_a_scenario_of_the_users_own_may_look_as_often_as_the_conversion_lets_it() -> None:
    env = make("simple_spread_v3")

    class Counting(type(env.unwrapped.scenario)):  # type: ignore[misc]
        """Its module is not one of mpe2's."""

    env.unwrapped.scenario.__class__ = Counting
    assert not looks_twice(env)
