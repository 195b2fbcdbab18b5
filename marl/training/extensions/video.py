"""Watching a run while it trains: ``record_env`` films an episode of every worker, ``render_env`` shows one.

The episodes are played beside the training, on copies and with generators of their own, so a filmed run learns the same as one
that is not. They are played as workers play: by the training's mapping, with exploration, in the present stage and task.

    videos/iteration_000010_worker-1.gif        the film, also as .mp4 where imageio-ffmpeg is installed
    videos/iteration_000010_worker-1.meta.json  what it shows: seed, length, returns
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marl.data.episode import EpisodeStats
from marl.data.task import Array
from marl.envs.registry import make_batched_env
from marl.envs.vector.env_errors import close_all
from marl.play.return_summary import returns_by_agent
from marl.play.video import Screen, Video, can_write_mp4, check_screen, picture_by, picture_of
from marl.rollout.env_runner import EnvRunner
from marl.rollout.worker import RolloutWorker
from marl.runs.pictures import draw_or_warn, reason_of, warn_of_missing
from marl.runs.result import Result
from marl.scenario.resolve import Setup
from marl.storage import make_folder, storing, write_atomically
from marl.training.extensions.extension import Extension, episode_seed

if TYPE_CHECKING:
    from marl.training.trainer import Trainer

EVERY = 10  # iterations, where a key only says true
MOST_STEPS = 1_000  # of an episode that are filmed or shown
FILM, SHOW = 0x66696C6D, 0x73686F77  # tell their seeds from all others


@dataclass(frozen=True)
class Film:
    """One episode of one worker: files by their endings, and what they show."""

    worker: int
    files: dict[str, bytes]
    meta: dict[str, Any]
    drawing_s: float = 0.0  # seconds that the env took to draw
    missing: str = ""  # why there are no files; empty: there are


def make_camera(setup: Setup) -> Camera:
    """One that never looks where nothing is to be seen. An env that cannot be drawn is refused before the run starts."""
    config = setup.rollout.config
    film, show = _iterations(config.record_env), _iterations(config.render_env)
    if not film and not show:
        return Camera(0, 0)
    recipe = setup.rollout.stage(0).env_recipe
    env = make_batched_env(
        recipe.env, 1, recipe.env_config, with_state=False, wrappers=recipe.wrappers, render_mode="rgb_array"
    )
    try:
        env.reset(np.array([0]), np.array([0]))
        drawn = picture_by(env)
    finally:
        close_all([env], env.name)
    picture_of(drawn, env.name)
    if show:
        check_screen(drawn, env.name)
    return Camera(film, show)


def _iterations(wish: bool | int) -> int:
    """Between two looks; 0: never. True is an int as well, but means no number."""
    if wish is True:
        return EVERY
    return int(wish)


class Camera(Extension):
    """Films every ``film`` iterations and shows every ``show``; 0: never. The last iteration is always seen."""

    name = "video"

    def __init__(self, film: int, show: int) -> None:
        self.film, self.show = film, show
        self.screen = Screen(lambda text: print(text, file=sys.stderr, flush=True))
        self._noted = False

    def after_done(self, trainer: Trainer, result: Result) -> None:
        if self._due(self.film, trainer, result):
            self._film(trainer)
        if self._due(self.show, trainer, result):
            draw_or_warn(f"of iteration {trainer.iteration} (render_env)", lambda: self._show(trainer))

    @staticmethod
    def _due(every: int, trainer: Trainer, result: Result) -> bool:
        return bool(every) and (bool(result["done"]) or trainer.iteration % every == 0)

    def _film(self, trainer: Trainer) -> None:
        directory = trainer.store.directory
        if directory is None:
            self._note_once(trainer)
            return
        films = trainer.workers.foreach_worker(Cameraman(trainer.scenario.seed, trainer.iteration))
        folder = directory / "videos"
        make_folder(folder)
        about = {"iteration": trainer.iteration, "timesteps_total": trainer.timesteps_total}
        for film in films:
            if film is not None and film.missing:
                warn_of_missing(folder / f"{_name(film, about)}.gif", film.missing)
            elif film is not None:
                _keep(folder, film, about)
                trainer.timers.add_sampler({"env_render": film.drawing_s, "pictures": film.meta["frames"]})

    def _note_once(self, trainer: Trainer) -> None:
        if not self._noted:
            trainer.notes.append(
                "record_env: this run has no directory, so nothing is filmed. Use run() or directory=..."
            )
        self._noted = True

    def _show(self, trainer: Trainer) -> None:
        worker = trainer.workers.local_worker()
        runner = worker.make_drawing_runner()
        try:
            seed = episode_seed(trainer.scenario.seed, trainer.iteration, 0, SHOW)
            self.screen.say(f"iteration {trainer.iteration}:")
            for drawn in drawn_episode(runner, seed, worker.spec.config.explore):
                self.screen.add(drawn, runner.env.name)
                trainer.timers.add_sampler({"env_render": runner.clock.pop()["env_render"], "pictures": 1})
        finally:
            close_all([runner.env], runner.env.name)

    def close(self) -> None:
        self.screen.close()


def _name(film: Film, about: dict[str, Any]) -> str:
    return f"iteration_{about['iteration']:06d}_worker-{film.worker}"


def _keep(folder: Path, film: Film, about: dict[str, Any]) -> None:
    name = _name(film, about)
    for ending, content in film.files.items():
        write_atomically(folder / f"{name}{ending}", content)
    files = [f"{name}{ending}" for ending in film.files]
    meta = {**about, "worker": film.worker, **film.meta, "files": files}
    write_atomically(folder / f"{name}.meta.json", json.dumps(meta, indent=1) + "\n")


@dataclass(frozen=True)
class Cameraman:
    """Called with every worker, where it is: plays and films one episode there; None where a worker has no env."""

    seed: int
    iteration: int

    def __call__(self, worker: RolloutWorker) -> Film | None:
        spec = worker.spec
        if worker.index == 0 and spec.config.num_workers > 0:  # the driver's, which does not collect
            return None
        try:
            return self._filmed(worker)
        except Exception as error:  # what is broken in the env itself, training will meet as well
            return Film(worker.index, {}, {}, missing=reason_of(error))

    def _filmed(self, worker: RolloutWorker) -> Film:
        runner = worker.make_drawing_runner()
        seed = episode_seed(self.seed, self.iteration, worker.index, FILM)
        explore = worker.spec.config.explore
        endings = (".gif", ".mp4") if can_write_mp4() else (".gif",)
        with storing(Path(tempfile.gettempdir())), tempfile.TemporaryDirectory() as folder, ExitStack() as ending:
            ending.callback(close_all, [runner.env], runner.env.name)
            videos = [Video(Path(folder) / f"film{e}") for e in endings]
            for drawn in drawn_episode(runner, seed, explore):
                for video in videos:
                    video.add(drawn, runner.env.name)
            for video in videos:
                video.close()
            files = {video.path.suffix: video.path.read_bytes() for video in videos}
        meta = {**_meta(runner, seed), "frames": videos[0].frames, "explore": explore}
        return Film(worker.index, files, meta, runner.clock.pop()["env_render"])


def drawn_episode(runner: EnvRunner, seed: int, explore: bool) -> Iterator[Array | str | None]:
    """What the env draws at the beginning of an episode and after each of its steps, ``MOST_STEPS`` at most."""
    rng = np.random.default_rng([seed, 1])
    runner.begin(np.array([0]), np.array([seed]))
    yield _drawn(runner)
    for _ in range(MOST_STEPS):
        over = runner.settle(runner.advance(runner.decide(rng, explore=explore)))
        yield _drawn(runner)
        if over.size:
            return


def _drawn(runner: EnvRunner) -> Array | str | None:
    runner.clock.start()
    drawn = picture_by(runner.env)
    runner.clock.lap("env_render")
    return drawn


def _meta(runner: EnvRunner, seed: int) -> dict[str, Any]:
    """What is known of the episode that was just played."""
    ended: EpisodeStats = runner.stats.pop()
    complete = len(ended) > 0
    meta = {"env": runner.env.name, "seed": seed, "env_steps": int(runner.t[0]), "complete": complete}
    if not complete:
        return {**meta, "episode_reward": None, "policies": {}, "agents": {}}
    policies = {}
    for index, name in enumerate(runner.policy_ids):
        returns = ended.policy_returns(index)
        if len(returns):
            policies[name] = float(returns[0])
    agents = {name: float(returns[0]) for name, returns in returns_by_agent(ended).items()}
    return {**meta, "episode_reward": float(ended.rewards[0]), "policies": policies, "agents": agents}
