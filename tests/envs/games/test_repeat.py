"""Repeat after a delay: who remembers earns 1, who does not guesses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import marl
from marl.data.task import Floats
from marl.envs.games.repeat import RepeatGames
from marl.errors import ConfigError

NOTHING = 4


def returns(env: RepeatGames, back: int) -> Floats:
    """Of copies that always name what was shown ``back`` steps ago, ``[E, A]``; 0 where nothing was."""
    output = env.reset(np.arange(env.num_envs), np.arange(env.num_envs) + 10)
    seen, total = [], np.zeros((env.num_envs, env.config.agents), np.float32)
    while not output.over.all():
        seen.append(output.obs[0][:, :, 0])
        named = seen[-1 - back] if len(seen) > back else np.zeros_like(seen[0])
        output = env.step([np.where(named == NOTHING, 0, named)])
        total += output.rewards
    assert len(seen) == env.config.delay + env.config.length
    return total


@pytest.mark.parametrize("length", [1, 3, 9])
def test_who_names_what_was_shown_delay_steps_ago_earns_one(length: int) -> None:
    env = RepeatGames(50, {"delay": 6, "symbols": 4, "length": length, "agents": 2})
    assert returns(env, back=6) == pytest.approx(np.ones((50, 2)))
    for other in (5, 7):
        assert returns(env, back=other).mean() < 0.7


def test_guessing_earns_one_in_symbols() -> None:
    env = RepeatGames(4000, {"delay": 1, "symbols": 4})
    env.reset(np.arange(4000), np.arange(4000))
    env.step([np.zeros((4000, 1), np.int64)])
    assert env.step([np.zeros((4000, 1), np.int64)]).rewards.mean() == pytest.approx(1 / 4, abs=0.03)


def test_a_symbol_is_shown_in_its_step_alone_and_pays_in_its_step_alone() -> None:
    env = RepeatGames(1, {"delay": 3, "symbols": 4})
    output = env.reset(np.array([0]), np.array([7]))
    symbol = int(output.obs[0][0, 0, 0])
    shown, paid, states = [], [], []
    while not output.over.all():
        shown.append(int(output.obs[0][0, 0, 0]))
        states.append(output.state[0].tolist())
        output = env.step([np.array([[symbol]])])
        paid.append(float(output.rewards[0, 0]))
    assert shown == [symbol, NOTHING, NOTHING, NOTHING]
    assert paid == [0, 0, 0, 1]
    assert states == [[0.0] * 4] * 3 + [np.eye(4)[symbol].tolist()]


def test_agents_and_copies_have_symbols_of_their_own_that_follow_from_the_seed() -> None:
    env = RepeatGames(8, {"length": 6, "agents": 3})
    env.reset(np.arange(8), np.arange(8))
    first = env.shown.copy()
    assert len({tuple(row) for row in first.reshape(24, 6).tolist()}) > 20
    env.reset(np.array([2]), np.array([5]))
    assert (env.shown[2] == first[5]).all()
    assert (env.shown[3] == first[3]).all()


def test_a_viewer_is_told_what_it_is_shown_and_not_what_it_should_remember() -> None:
    env = RepeatGames(1, {"delay": 1, "symbols": 2, "agents": 2})
    env.reset(np.array([0]), np.array([0]))
    symbol = env.shown[0, 0, 0]
    assert env.scene(0, "agent_0")["text"] == f"Step 1 of 2.\nagent_0 sees symbol {symbol}."
    env.step([np.zeros((1, 2), np.int64)])
    assert env.scene(0, "agent_0")["text"] == "Step 2 of 2.\nagent_0 sees nothing."
    assert f"agent_0 sees nothing, should name symbol {symbol}." in env.render(0)


@pytest.mark.parametrize("keys", [{"delay": 0}, {"symbols": 1}, {"length": 0}, {"agents": 0}, {"dealy": 3}])
def test_keys_that_make_no_game_are_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(keys))):
        marl.make_env("repeat_after_delay", keys)


def test_the_check_finds_nothing() -> None:
    assert marl.check_env("repeat_after_delay", {"length": 2, "agents": 2}) == []
