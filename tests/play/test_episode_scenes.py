"""Episodes with scenes: one before the first step and one after each, and nothing is played differently."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from marl.play.episode import Which, play_episode
from tests.play.runs import constant, opened


def test_a_tape_holds_a_scene_before_the_first_step_and_after_each(tmp_path: Path) -> None:
    values = {"player_0": [2.0, 1.0], "player_1": [1.0, 2.0]}
    path = constant(tmp_path / "run", "matrix_game", values, algo="dqn", env_config={"repetitions": 3})
    tape = play_episode(opened(path), Which(), scenes=True)
    assert [None if scene is None else scene["played"] for scene in tape.scenes] == [None, [0, 1], [0, 1], [0, 1]]
    assert tape.scenes[-1] is not None
    assert tape.scenes[-1]["history"] == [[0, 1]] * 3


def test_an_episode_with_scenes_is_the_episode_without_them(tmp_path: Path) -> None:
    values = {"player_0": [0.0, 0.0, 0.0], "player_1": [0.0, 0.0, 0.0]}
    path = constant(tmp_path / "run", "leduc_poker", values, algo="ppo")
    which = Which(2, explore=True)
    plain, drawn = play_episode(opened(path), which), play_episode(opened(path), which, scenes=True)
    assert plain.scenes == []
    assert len(drawn.scenes) == len(plain) + 1
    assert plain.returns == drawn.returns
    assert np.array_equal(plain.batch.actions[0], drawn.batch.actions[0])
