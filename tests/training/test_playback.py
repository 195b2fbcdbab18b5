"""Playing a checkpoint from the command line."""

from pathlib import Path

import pytest

from marl import Trainer
from marl.errors import ConfigError
from marl.training.playback import play

TINY = {"train_batch_size": 64, "sgd_minibatch_size": 64, "fcnet_hiddens": [8], "evaluation": {"interval": 0}}


def checkpoint(env: str, folder: Path) -> Path:
    with Trainer("ppo", env=env, config=TINY) as trainer:
        trainer.train()
        return Path(trainer.save(folder))


def test_a_world_of_texts_is_printed_and_one_of_pictures_says_so(tmp_path: Path) -> None:
    texts = checkpoint("traffic", tmp_path / "traffic")
    lines = list(play(texts, 1, 3, False, 0, render=True))
    assert len(lines) == 4
    pictures = checkpoint("windy_maze", tmp_path / "maze")
    with pytest.raises(ConfigError, match=r"env 'windy_maze' draws pictures \(\d+x\d+x3\). Leave --render out"):
        list(play(pictures, 1, 3, False, 0, render=True))
    nothing = checkpoint("CartPole-v1", tmp_path / "pole")
    with pytest.raises(ConfigError, match="env 'CartPole-v1' draws nothing"):
        list(play(nothing, 1, 3, False, 0, render=True))
