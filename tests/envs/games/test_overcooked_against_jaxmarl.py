"""fast:overcooked beside JaxMARL's own, where that is installed: the same start and actions, thousands of steps.

The recording of ``overcooked_original.py`` is replayed everywhere; this plays more, and whatever version is there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.envs.registry import make_batched_env
from tests.envs.games.overcooked_original import LAYOUTS, Crew, Original

pytest.importorskip("jaxmarl", reason="jaxmarl is not installed; the recording is replayed in test_overcooked.py")
pytestmark = pytest.mark.slow  # jax compiles

COPIES, STEPS = 32, 400


@pytest.mark.parametrize("random_reset", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_step_is_that_of_the_original(layout: str, random_reset: bool) -> None:
    original = Original(layout, COPIES, STEPS, random_reset)
    first = original.reset(seed=5)
    fast: Any = make_batched_env("fast:overcooked", COPIES, {"layout": layout})
    fast.reset(np.arange(COPIES), np.arange(COPIES))
    shown = fast.set_state(fast.get_state() | original.arrays()).obs[0]
    np.testing.assert_array_equal(shown, first.reshape(shown.shape))
    crew = Crew(original.width, COPIES, seed=100)
    soups = 0
    for step in range(STEPS):
        actions = crew.actions(fast.get_state())
        frame = fast.step([actions])
        obs, rewards, shaped, done = original.step(actions)
        np.testing.assert_array_equal(frame.obs[0], obs.reshape(shown.shape), err_msg=f"observations of step {step}")
        np.testing.assert_array_equal(frame.rewards, rewards, err_msg=f"rewards of step {step}")
        np.testing.assert_array_equal(fast.shaped, shaped, err_msg=f"shaped rewards of step {step}")
        np.testing.assert_array_equal(frame.over, done)
        soups += int(rewards[:, 0].sum() // 20)
    assert soups > COPIES / 2
    assert frame.over.all()
