"""Actions between the units of learning and those of the env, rewards that are clipped, and memories per kind."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from marl.data.action_units import from_env, to_env
from marl.data.task import AgentType
from marl.rollout.config import RolloutConfig, clipped

ACTS = AgentType(
    "k", ("a",), spaces.Discrete(2), spaces.Box(np.array([-3, 0], np.float32), np.array([1, 10], np.float32))
)
CHOICE = AgentType("c", ("a",), spaces.Discrete(2), spaces.Discrete(4))
LEARNED = np.array([[-1.0, -1.0], [1.0, 1.0], [0.0, 0.5]], np.float32)
ENVS = np.array([[-3.0, 0.0], [1.0, 10.0], [-1.0, 7.5]], np.float32)


def test_coordinates_are_stretched_to_the_bounds_of_the_env_and_back_only_if_they_are_normalised() -> None:
    config = RolloutConfig(normalize_actions=True)
    assert to_env(LEARNED, ACTS.columns, config) == pytest.approx(ENVS)
    assert from_env(ENVS, ACTS.columns, config) == pytest.approx(LEARNED)
    plain = RolloutConfig(normalize_actions=False)
    assert from_env(ENVS, ACTS.columns, plain) == pytest.approx(ENVS)
    assert to_env(ENVS, ACTS.columns, plain) == pytest.approx(ENVS)


@pytest.mark.parametrize("normalised", [True, False])
def test_choices_are_the_same_for_learners_and_the_env(normalised: bool) -> None:
    config, chosen = RolloutConfig(normalize_actions=normalised), np.array([3, 0, 2])
    assert to_env(chosen, CHOICE.columns, config).tolist() == [3, 0, 2]
    assert from_env(chosen, CHOICE.columns, config).tolist() == [3, 0, 2]


@pytest.mark.parametrize("clips", [True, False])
def test_actions_beyond_the_bounds_are_cut_if_the_key_says_so(clips: bool) -> None:
    config = RolloutConfig(normalize_actions=False, clip_actions=clips)
    beyond = np.array([[-4.0, 11.0], [0.5, 5.0]], np.float32)
    cut = [[-3.0, 10.0], [0.5, 5.0]]
    assert to_env(beyond, ACTS.columns, config).tolist() == (cut if clips else beyond.tolist())


def test_rewards_are_clipped_to_their_sign_or_to_a_number() -> None:
    paid = np.array([-7.0, -0.5, 0.0, 0.25, 3.0], np.float32)
    assert clipped(paid, True).tolist() == [-1.0, -1.0, 0.0, 1.0, 1.0]
    assert clipped(paid, 2.0).tolist() == [-2.0, -0.5, 0.0, 0.25, 2.0]
    assert clipped(paid, 1.0).tolist() == [-1.0, -0.5, 0.0, 0.25, 1.0]
