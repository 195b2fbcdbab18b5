"""Numbers, histograms and pictures of a run as TensorBoard's own reader and an image reader find them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from marl import Callbacks, Trainer
from marl.errors import ConfigError
from marl.runs.files import RunFiles
from marl.training.display import JsonLines
from marl.training.loop import run_until_stopped

GREY = np.array([[0, 255], [128, 1]], np.uint8)
RED = np.zeros((4, 6, 3), np.uint8)
RED[..., 0] = 200


def events(directory: Path) -> EventAccumulator:
    return EventAccumulator(str(directory), size_guidance={"images": 0, "scalars": 0, "histograms": 0}).Reload()


def result(iteration: int, **more: Any) -> dict[str, Any]:
    return {"training_iteration": iteration, "timesteps_total": 1000 * iteration, **more}


def test_a_run_shows_its_scalars_and_histograms_in_tensorboard(tmp_path: Path) -> None:
    keys = {
        "env": "two_step_game", "fcnet_hiddens": [8], "evaluation": {"interval": 1, "episodes": 4}, "full_td_error": True,
        "train_batch_size": 16, "timesteps_per_iteration": 32, "learning_starts": 0,
    }  # fmt: skip
    with Trainer("dqn", config=keys, directory=tmp_path) as trainer:
        results = [trainer.train() for _ in range(2)]
    found = events(tmp_path)
    scalars = found.Tags()["scalars"]
    for tag in (
        "episode_reward_mean", "evaluation/episode_reward_mean", "policy_reward_mean/default_policy",
        "agent_reward_mean/agent_0", "info/learner/default_policy/learner_stats/td_loss", "timers/load_time_ms",
        "sampler_perf/mean_inference_ms", "perf/cpu_util_percent", "info/num_target_updates",
    ):  # fmt: skip
        assert tag in scalars
    rewards = [(e.step, e.value) for e in found.Scalars("episode_reward_mean")]
    assert rewards == [(r["timesteps_total"], pytest.approx(r["episode_reward_mean"])) for r in results]
    histograms = found.Tags()["histograms"]
    assert {"hist_stats/episode_reward", "evaluation/hist_stats/episode_lengths"} <= set(histograms)
    newest = found.Histograms("hist_stats/episode_reward")[-1].histogram_value
    assert newest.num == len(results[-1]["hist_stats"]["episode_reward"])
    assert newest.sum == pytest.approx(sum(results[-1]["hist_stats"]["episode_reward"]))
    assert found.Histograms("info/learner/default_policy/td_error")[-1].histogram_value.num == 16


def test_pictures_of_a_result_become_files_and_images_in_tensorboard(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    given = result(2, episode_media={"my board": [RED, GREY], "heat/map": 0.5 * np.ones((3, 3))})
    files.append(given)
    files.close()
    assert given["episode_media"]["my board"][0] is RED  # what the caller holds stays as it is
    (written,) = (json.loads(line) for line in (tmp_path / "result.json").read_text().splitlines())
    assert written["episode_media"] == {
        "my board": ["media/my_board_2000.png", "media/my_board_2000_1.png"],
        "heat/map": ["media/heat_map_2000.png"],
    }
    assert np.array_equal(imageio.imread(tmp_path / "media/my_board_2000.png"), RED)
    assert np.array_equal(imageio.imread(tmp_path / "media/my_board_2000_1.png"), np.repeat(GREY[..., None], 3, 2))
    assert np.array_equal(imageio.imread(tmp_path / "media/heat_map_2000.png"), np.full((3, 3, 3), 128))
    found = events(tmp_path)
    assert set(found.Tags()["images"]) == {"my board", "my board/1", "heat/map"}
    (image,) = found.Images("my board")
    assert (image.step, image.height, image.width) == (2000, 4, 6)
    assert np.array_equal(imageio.imread(io.BytesIO(image.encoded_image_string)), RED)


def test_a_film_becomes_a_gif_with_all_its_frames(tmp_path: Path) -> None:
    film = np.stack([np.full((4, 4, 3), shade, np.uint8) for shade in (0, 100, 255)])
    files = RunFiles(tmp_path)
    place = files.write_image("episode", film, step=7)
    files.close()
    assert place == "media/episode_7.gif"
    assert imageio.imread(tmp_path / place, index=None).shape[0] == 3
    assert events(tmp_path).Images("episode")[0].encoded_image_string.startswith(b"GIF8")


@pytest.mark.parametrize(
    "picture",
    [np.zeros(3), np.zeros((2, 2, 5)), np.zeros((0, 4, 3)), np.array([["a", "b"]]), np.zeros((1, 2, 3, 4, 3))],
)
def test_what_is_no_picture_is_refused_with_its_shape(picture: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"picture 'x' has shape .* expected \[H, W\]"):
        RunFiles(tmp_path).write_image("x", picture, 0)


def test_results_without_pictures_make_no_folder(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    files.append(result(1, episode_media={}))
    files.close()
    assert not (tmp_path / "media").exists()


def note(episode: Any, **_: Any) -> None:
    """An episode of the two-step game pays at most 8."""
    episode.custom_metrics["missing"] = 8.0 - episode.total_reward
    episode.media["board"] = RED


def test_rewards_custom_metrics_and_pictures_of_callbacks_are_in_tensorboard(tmp_path: Path) -> None:
    keys = {
        "env": "two_step_game", "fcnet_hiddens": [8], "evaluation": {"interval": 0}, "train_batch_size": 32,
        "callbacks": {"on_episode_end": note},
    }  # fmt: skip
    with Trainer("ppo", config=keys, directory=tmp_path) as trainer:
        told = trainer.train()
    found = events(tmp_path)
    assert {"episode_reward_mean", "custom_metrics/missing_mean"} <= set(found.Tags()["scalars"])
    (missing,) = found.Scalars("custom_metrics/missing_mean")
    assert missing.value == pytest.approx(8.0 - told["episode_reward_mean"], abs=1e-5)
    assert any(tag.startswith("board") for tag in found.Tags()["images"])
    pictures = list((tmp_path / "media").glob("board_*.png"))
    assert pictures
    assert np.array_equal(imageio.imread(pictures[0]), RED)


def test_json_lines_are_those_of_the_result_file_with_the_names_of_pictures(tmp_path: Path) -> None:
    class Drawing(Callbacks):
        def on_episode_end(self, *, episode: Any) -> None:
            episode.media["board"] = np.zeros((4, 4, 3), np.uint8)

    printed = io.StringIO()
    keys = {"callbacks": Drawing, "stop": {"training_iteration": 2}, "fcnet_hiddens": [4], "train_batch_size": 32}
    with Trainer("ppo", env="two_step_game", config=keys, directory=tmp_path) as trainer:
        run_until_stopped(trainer, JsonLines(printed, io.StringIO()))
        written = (tmp_path / "result.json").read_text()
    assert printed.getvalue() == written
    assert json.loads(written.splitlines()[0])["episode_media"]["board"][0].startswith("media/board_")
