"""Videos: every env that draws can be filmed, in rollouts and while it trains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import pytest

from marl import Trainer
from marl.envs.registry import make_batched_env
from marl.errors import ConfigError
from marl.play import video
from marl.play.playback import RolloutOptions, play
from marl.play.video import Video, fitted, picture_of, text_picture
from marl.runs.result import without_wall_clock
from marl.training.extensions import video as filming

TINY = {"train_batch_size": 64, "sgd_minibatch_size": 64, "fcnet_hiddens": [8], "evaluation": {"interval": 0}}
GREY = np.full((32, 48, 3), 100, np.uint8)


def shades(count: int) -> list[Any]:
    """Pictures that differ, as equal neighbours are one longer frame of a GIF."""
    return [np.full((33, 47, 3), 10 + 20 * i, np.uint8) for i in range(count)]


def filmed(path: Path, pictures: list[Any], fps: float | None = None) -> Any:
    with Video(path, fps) as film:
        for picture in pictures:
            film.add(picture, "world")
    return iio.imread(path)


@pytest.mark.parametrize("ending", ["gif", "mp4"])
def test_a_film_has_its_pictures_in_order_on_an_even_canvas(tmp_path: Path, ending: str) -> None:
    frames = filmed(tmp_path / "deep" / f"film.{ending}", shades(5))
    assert frames.shape == (5, 34, 48, 3)
    assert np.abs(frames[:, 10, 10, 0].astype(int) - [10, 30, 50, 70, 90]).max() <= 4  # MP4 rounds colours
    assert [file.name for file in (tmp_path / "deep").iterdir()] == [f"film.{ending}"]


def test_the_rate_is_what_the_user_says_and_slow_for_texts(tmp_path: Path) -> None:
    filmed(tmp_path / "a.gif", shades(2), fps=4)
    filmed(tmp_path / "b.gif", ["one", "two"])
    assert [iio.immeta(tmp_path / name)["duration"] for name in ("a.gif", "b.gif")] == [250, 500]


def test_a_text_is_readable_as_a_picture_and_keeps_its_size_while_it_changes() -> None:
    short, longer = text_picture("step 1\n...car"), text_picture("step 10\n....car")
    assert short.shape == longer.shape
    assert (short < 100).any(axis=2).sum() > 50  # ink
    assert text_picture("\n".join("x" * 70 for _ in range(9))).shape > short.shape


def test_a_picture_of_another_size_is_put_onto_the_canvas() -> None:
    assert fitted(GREY, 32, 48) is GREY
    small = fitted(GREY, 40, 60)
    assert small.shape == (40, 60, 3)
    assert (small[:32, :48] == 100).all()
    assert (small[32:] == 255).all()
    halved = fitted(GREY, 16, 48)
    assert (halved[:, :24] == 100).all()
    assert (halved[:, 24:] == 255).all()


def test_what_is_no_picture_is_refused() -> None:
    for drawn, message in (
        (None, "env 'w' draws nothing"),
        (np.zeros((4, 4)), r"an array of shape \(4, 4\)"),
        (np.zeros((4, 4, 3)), "pictures of float64; expected uint8"),
    ):
        with pytest.raises(ConfigError, match=message):
            picture_of(drawn, "w")


def test_a_name_that_is_no_video_is_refused_before_anything_is_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"NAME.gif or NAME.mp4"):
        Video(tmp_path / "film.avi")
    monkeypatch.setattr(video, "can_write_mp4", lambda: False)
    with pytest.raises(ConfigError, match=r"pip install 'marl\[video\]'"):
        Video(tmp_path / "film.mp4")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write the video"):
        Video(tmp_path / "file" / "film.gif")


def test_a_film_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="draws nothing"), Video(tmp_path / "film.gif") as film:
        film.add(GREY, "world")
        film.add(None, "world")
    assert list(tmp_path.iterdir()) == []


# -- envs ------------------------------------------------------------------------------------------------------------

ENVS = [
    "two_step_game", "matrix_game", "kuhn_poker", "leduc_poker", "liars_dice", "goofspiel", "congestion", "graphical_game", "traffic",
    "phantom_ttt", "dark_hex", "tic_tac_toe", "connect_four", "nim", "battleship",
    "tiny_hanabi",
    "fast:lbf", "fast:rware", "fast:overcooked",
    "fast:simple_spread", "fast:simple_tag", "fast:simple_speaker_listener", "fast:simple_adversary", "fast:simple_push",
    "fast:simple_crypto", "fast:simple_reference", "fast:simple_world_comm", "windy_maze", "repeat_after_delay", "copies", "CartPole-v1",
    "pettingzoo:mpe2/simple_spread_v3", "pettingzoo:classic/tictactoe_v3",
]  # fmt: skip


@pytest.mark.parametrize("env", ENVS)
def test_the_env_draws_pictures_that_change(env: str) -> None:
    batched_env = make_batched_env(env, 1, {}, with_state=False, render_mode="rgb_array")
    frame = batched_env.reset(np.array([0]), np.array([0]))
    before = picture_of(batched_env.render(0), env)
    for _ in range(3):
        moves = []
        for k, kind in enumerate(batched_env.kinds):
            moves.append(np.ones((1, kind.size, *kind.action_shape), kind.action_dtype))
            if kind.legal_width:
                moves[k][0] = frame.legal[k][0].argmax(axis=1).reshape(moves[k][0].shape)
        frame = batched_env.step(moves)
        if frame.over[0]:
            break
    after = picture_of(batched_env.render(0), env)
    batched_env.close()
    assert before.shape != after.shape or (before != after).any()


def test_envs_are_built_without_a_render_mode_unless_somebody_looks() -> None:
    seen: list[Any] = []

    def creator(render_mode: str | None = None) -> Any:
        import gymnasium as gym

        seen.append(render_mode)
        return gym.make("CartPole-v1", render_mode=render_mode)

    def contextual(config: Any) -> Any:
        seen.append(config.render_mode)
        return creator()

    for mode in (None, "rgb_array"):
        make_batched_env(creator, 1, {}, render_mode=mode)
    assert seen == [None, "rgb_array"]
    make_batched_env(creator, 1, {"render_mode": "human"[:0] or None}, render_mode="rgb_array")
    assert seen.pop() is None  # what env_config says goes first
    make_batched_env(contextual, 1, {}, render_mode="rgb_array")
    assert seen[-2:] == ["rgb_array", None]


def test_a_creator_without_the_keyword_is_called_without_it() -> None:
    def creator(size: int = 3) -> Any:
        import gymnasium as gym

        return gym.make("CartPole-v1", max_episode_steps=size)

    assert make_batched_env(creator, 1, {"size": 5}, render_mode="rgb_array").num_envs == 1


def test_a_rollout_is_filmed_with_the_beginning_of_each_episode(tmp_path: Path) -> None:
    with Trainer("ppo", env="windy_maze", config=TINY) as trainer:
        path = Path(trainer.save(tmp_path / "run"))
    (tally,) = play(path, RolloutOptions(steps=9, video=tmp_path / "film.mp4"), say=lambda _: None)
    begun = 1 + len(tally.stats)
    assert len(iio.imread(tmp_path / "film.mp4")) == 9 + begun


# -- while training ----------------------------------------------------------------------------------------------------


def films(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "videos").iterdir())


def trained(directory: Path | None, iterations: int = 2, env: str = "two_step_game", **keys: Any) -> list[Any]:
    with Trainer("ppo", env=env, config={**TINY, **keys}, directory=directory) as trainer:
        return [without_wall_clock(trainer.train()) for _ in range(iterations)]


def test_every_worker_is_filmed_with_a_note_of_what_it_shows(tmp_path: Path) -> None:
    trained(tmp_path, 4, record_env=2, num_workers=2, pool="in_process")
    stems = [f"iteration_{i:06d}_worker-{w}" for i in (2, 4) for w in (1, 2)]
    assert films(tmp_path) == sorted(f"{stem}{end}" for stem in stems for end in (".gif", ".mp4", ".meta.json"))
    meta = json.loads((tmp_path / "videos" / f"{stems[0]}.meta.json").read_text())
    assert {key: meta[key] for key in ("iteration", "worker", "env", "env_steps", "complete", "explore")} == {
        "iteration": 2, "worker": 1, "env": "two_step_game", "env_steps": 2, "complete": True, "explore": True,
    }  # fmt: skip
    assert meta["agents"] == {"agent_0": meta["episode_reward"] / 2, "agent_1": meta["episode_reward"] / 2}
    assert meta["frames"] == 3
    assert len(iio.imread(tmp_path / "videos" / f"{stems[0]}.mp4")) == 3
    assert len(iio.imread(tmp_path / "videos" / f"{stems[0]}.gif")) > 1


def test_a_filmed_run_learns_the_same_as_one_that_is_not(tmp_path: Path) -> None:
    keys = {"env": "windy_maze", "num_envs_per_worker": 2, "horizon": 20}
    plain, watched = trained(tmp_path / "a", 3, **keys), trained(tmp_path / "b", 3, record_env=1, **keys)
    for one, other in zip(plain, watched, strict=True):
        assert one["info"]["learner"] == other["info"]["learner"]
        assert one["hist_stats"] == other["hist_stats"]


def test_the_last_iteration_is_filmed_though_it_is_not_due(tmp_path: Path) -> None:
    trained(tmp_path, 1, record_env=True, stop={"training_iteration": 1})
    assert "iteration_000001_worker-0.gif" in films(tmp_path)


def test_a_long_episode_is_cut_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filming, "MOST_STEPS", 5)
    trained(tmp_path, 1, record_env=1, env="traffic")
    meta = json.loads((tmp_path / "videos" / "iteration_000001_worker-0.meta.json").read_text())
    assert (meta["env_steps"], meta["complete"], meta["episode_reward"]) == (5, False, None)


def test_a_run_without_a_directory_says_that_it_films_nothing() -> None:
    with Trainer("ppo", env="two_step_game", config={**TINY, "record_env": 1}) as trainer:
        trainer.train(), trainer.train()
        assert [note for note in trainer.notes if "record_env" in note] == [
            "record_env: this run has no directory, so nothing is filmed. Use run() or directory=..."
        ]


def test_an_episode_is_shown_while_training(capsys: pytest.CaptureFixture[str]) -> None:
    trained(None, 2, render_env=2)
    shown = capsys.readouterr().err
    assert shown.startswith("iteration 2:\ntwo-step game, first state")
    assert shown.count("two-step game") == 3


def test_what_cannot_be_filmed_or_shown_is_refused_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.training.test_playback import blank

    with pytest.raises(ConfigError, match="draws nothing"):
        Trainer("ppo", env=blank, config={**TINY, "record_env": True})
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="there is no display"):
        Trainer("ppo", env="windy_maze", config={**TINY, "render_env": True})


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_ray_workers_are_filmed_where_they_are(tmp_path: Path) -> None:
    for pool in ("ray", "in_process"):
        trained(tmp_path / pool, 1, record_env=1, num_workers=2, pool=pool)
    assert films(tmp_path / "ray") == films(tmp_path / "in_process")
    for name in films(tmp_path / "ray"):
        one, other = ((tmp_path / pool / "videos" / name).read_bytes() for pool in ("ray", "in_process"))
        assert one == other or name.endswith(".mp4")
