"""An export brought back by ``from_pettingzoo`` plays the same episodes as the env itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from pettingzoo.test import api_test, parallel_api_test, seed_test

from marl.envs.adapters.export import to_pettingzoo
from marl.envs.adapters.pettingzoo import from_pettingzoo
from marl.envs.base import ALL, MultiAgentEnv
from marl.envs.registry import make_env
from tests.envs.test_export import TIC_TAC_TOE, on_every_game

pytestmark = pytest.mark.slow  # whole runs or processes


def plain(obs: Any) -> Any:
    """An observation as numbers that can be compared; the part beside a mask or state has one name."""
    if isinstance(obs, Mapping):
        return {"observation" if key == "obs" else key: plain(value) for key, value in obs.items()}
    return np.asarray(obs).tolist()


class Story:
    """Plays an episode at random and writes down what each agent of the env lives through.

    An entry is (decision or end, what it saw, its reward since its last entry, flags). Actions follow from seed, agent and
    the number of its decision, so the same env in another dress tells the same story.
    """

    def __init__(self, env: MultiAgentEnv, seed: int) -> None:
        self.env, self.seed = env, seed
        self.entries: dict[str, list[Any]] = {}
        self.paid: dict[str, float] = {}
        self.alive: set[str] = set()
        self.own_id: dict[str, str] = {}
        self.steps = self.stale_actions = 0
        obs, infos = env.reset(seed=seed)
        actions = self.decide(obs, infos, {})
        while True:
            result = env.step(actions)
            self.steps += 1
            for agent, reward in result.rewards.items():
                self.paid[agent] = self.paid.get(agent, 0.0) + float(reward)
            ended = self.end(result)
            over = result.terminated.get(ALL) or result.truncated.get(ALL)
            if over or (not (self.alive | set(result.obs) - set(ended)) and ALL not in result.terminated):
                break
            actions = self.decide(result.obs, result.infos, ended)

    def decide(self, obs: Mapping[str, Any], infos: Mapping[str, Any], ended: Mapping[str, Any]) -> dict[str, Any]:
        actions = {}
        for agent, seen in obs.items():
            if agent in ended:
                continue
            info = infos.get(agent) or {}
            if info.get("marl_stale"):
                actions[agent] = self.env.action_space(agent).sample()
                self.stale_actions += 1
                continue
            self.alive.add(agent)
            self.own_id[agent] = info.get("agent", agent)
            self.write(agent, "decides", seen, None)
            actions[agent] = self.action(agent, seen)
        return actions

    def end(self, result: Any) -> dict[str, Any]:
        all_flags = result.terminated.get(ALL, False), result.truncated.get(ALL, False)
        ended = {}
        for agent in self.alive | (set(result.obs) & set(result.terminated)):
            flags = bool(result.terminated.get(agent, False)), bool(result.truncated.get(agent, False))
            flags = flags if any(flags) else all_flags
            if any(flags):
                ended[agent] = flags
        for agent in sorted(set(ended) & self.alive):
            self.write(agent, "ends", result.obs[agent], ended[agent])
        self.alive -= set(ended)
        return ended

    def write(self, agent: str, what: str, seen: Any, flags: Any) -> None:
        entry = (what, plain(seen), self.paid.pop(agent, 0.0), flags)
        self.entries.setdefault(self.own_id[agent], []).append(entry)

    def action(self, agent: str, seen: Any) -> Any:
        space = self.env.action_space(agent)
        decision = len(self.entries[self.own_id[agent]])
        luck = np.random.default_rng([self.seed, crc32(self.own_id[agent].encode()), decision])
        if isinstance(space, spaces.Discrete):
            legal = seen["action_mask"] if isinstance(seen, Mapping) and "action_mask" in seen else np.ones(space.n)
            return int(luck.choice(np.flatnonzero(legal))) + int(space.start)
        return luck.uniform(-1, 1, space.shape).astype(space.dtype)


@on_every_game
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**31 - 1))
def test_the_parallel_export_brought_back_plays_the_same_episode(name: str, config: dict[str, Any], seed: int) -> None:
    original = Story(make_env(name, config), seed)
    back = Story(from_pettingzoo(to_pettingzoo(name, env_config=config)), seed)
    assert back.entries == original.entries
    assert original.entries
    if name != "traffic":  # where steps without anybody are played at once
        assert back.steps == original.steps


@on_every_game
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**31 - 1))
def test_the_turn_based_export_brought_back_plays_the_same_episode(
    name: str, config: dict[str, Any], seed: int
) -> None:
    original = Story(make_env(name, config), seed)
    back = Story(from_pettingzoo(to_pettingzoo(name, turns=True, env_config=config)), seed)
    assert back.entries == original.entries
    assert back.stale_actions == 0


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize("name", [TIC_TAC_TOE, "pettingzoo:classic/connect_four_v3"])
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**31 - 1))
def test_a_turn_based_game_brought_back_plays_the_same_episode(name: str, turns: bool, seed: int) -> None:
    original = Story(make_env(name), seed)
    back = Story(from_pettingzoo(to_pettingzoo(name, turns)), seed)
    assert back.entries == original.entries
    assert back.steps == original.steps > 4


def hierarchical(_: object = None) -> MultiAgentEnv:
    """A maze in which the top level is asked alone, and then the low level for up to three steps."""
    goals = {"changes": [[1, 0], [-1, 0], [0, 1], [0, -1]]}
    levels = [{"name": "top_level", "horizon": 3, "goals": goals}, {"name": "low_level"}]
    maze = {"rooms": [1, 2], "room_size": 3, "limit": 60}
    return make_env("windy_maze", maze, [{"hierarchy": {"levels": levels, "features": [0, 1]}}])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_hierarchy_passes_pettingzoos_tests_and_plays_the_same_episode() -> None:
    parallel_api_test(to_pettingzoo(hierarchical), num_cycles=100)
    api_test(to_pettingzoo(hierarchical, turns=True), num_cycles=100)
    seed_test(lambda: to_pettingzoo(hierarchical, turns=True), num_cycles=100)
    for seed in range(3):
        original = Story(hierarchical(), seed)
        backs = [Story(from_pettingzoo(to_pettingzoo(hierarchical, turns)), seed) for turns in (False, True)]
        assert backs[0].entries == backs[1].entries == original.entries
        assert backs[0].steps == backs[1].steps == original.steps
