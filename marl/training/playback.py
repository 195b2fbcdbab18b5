"""Playing a trained run: no learner, no files, just the policies of a checkpoint in their world."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from marl.data.episode import EpisodeStats
from marl.data.task import Task
from marl.envs.batched import Frame
from marl.envs.registry import make_world
from marl.errors import ConfigError
from marl.policies.build import build_policies
from marl.registry import only_modules
from marl.rollout.grid import Grid
from marl.rollout.player import Choices, Player
from marl.scenario.load import compose
from marl.scenario.setup import set_up
from marl.training.checkpoint import find_checkpoint, read_part
from marl.training.recording import Recorder
from marl.training.store import set_weights


def play(
    path: Path,
    episodes: int,
    steps: int | None,
    explore: bool,
    seed: int,
    allow: frozenset[str] = frozenset(),
    render: bool = False,
    record: Path | None = None,
) -> Iterator[str]:
    """Lines to print: one per episode, then the means. With ``steps`` exactly so many env steps are played.

    ``record`` is a directory for the episodes that came to their end.
    """
    folder = find_checkpoint(path)
    player = load_player(folder, allow)
    notes = Notes(player, record) if record is not None else None
    rng = np.random.default_rng([seed, 1])
    ended: list[EpisodeStats] = []
    played = 0
    player.begin(np.array([0]), np.array([seed]))
    while (played < steps) if steps is not None else (len(ended) < episodes):
        choices = player.decide(rng, explore=explore)
        if notes is not None:
            notes.before(choices)
        frame = player.advance(choices)
        played += 1
        if render:
            yield _text(player)
        over = player.settle(frame)
        if notes is not None:
            notes.after(frame)
        if over.size:
            ended.append(player.ledger.pop())
            yield f"episode {len(ended)}  {_episode(ended[-1], player.policy_ids)}"
            player.begin(np.array([0]), np.array([seed + len(ended)]))
    yield _summary(EpisodeStats.concat(ended), played, player.policy_ids)
    if notes is not None:
        notes.recorder.close()
        yield f"recorded: {record}"


class Notes:
    """Writes down what a player does, step by step."""

    def __init__(self, player: Player, directory: Path) -> None:
        self.player, world = player, player.world
        task = Task(world.kinds, world.state_size)
        self.grid = Grid(task, player.policy_ids, world.num_envs, complete_episodes=False)
        normalized = player.config.normalize_actions
        self.recorder = Recorder(directory.expanduser(), task, world.name, player.policy_ids, normalized)
        self.recorder.prepare()

    def before(self, choices: Choices) -> None:
        """What everybody saw and decided."""
        (self.row,) = self.grid.extend(1)
        self.grid.record(self.row, self.player, choices)

    def after(self, frame: Frame) -> None:
        """What came of it."""
        self.grid.settle(self.row, frame, self.player.policy_of)
        self.recorder.add(self.grid.batch())
        self.grid.keep_tail()


def _text(player: Player) -> str:
    picture = player.world.render(0)
    if isinstance(picture, str):
        return picture
    what = "draws nothing" if picture is None else f"draws pictures ({'x'.join(map(str, picture.shape))})"
    raise ConfigError(f"--render prints texts, but env {player.world.name!r} {what}. Leave --render out.")


def load_player(folder: Path, allow: frozenset[str]) -> Player:
    """One copy of the checkpoint's world with its policies; names may only point to built-in or allowed modules."""
    described: dict[str, Any] = read_part(folder, "run")["scenario"]
    weights = read_part(folder, "policies")
    with only_modules(allow):
        setup = set_up(compose({**described, "num_workers": 0, "load": {}}, str(folder)))
        policies = build_policies(setup.policies, setup.task.kinds)
        for name, policy in policies.items():
            set_weights(policy, weights[name], f"{folder}, policy {name!r}")
        spec = setup.rollout
        fresh = spec.config.fresh_env_per_episode
        world = make_world(
            spec.env, 1, spec.env_config, fresh_env_per_episode=fresh, with_state=False, wrappers=spec.wrappers
        )
    kinds = {name: spec.kind for name, spec in setup.policies.items()}
    mapper = (
        setup.rollout.mapper if setup.stage is None else setup.stage.answers()
    )  # what a population proposes to play
    return Player(world, policies, kinds, mapper, setup.rollout.config, teams=setup.rollout.teams)


def _episode(stats: EpisodeStats, policies: list[str]) -> str:
    return f"reward {stats.rewards[0]:.4g}  length {stats.lengths[0]}  {_by_policy(stats, policies)}"


def _by_policy(stats: EpisodeStats, policies: list[str]) -> str:
    parts = [(name, stats.policy_returns(i)) for i, name in enumerate(policies)]
    return "  ".join(f"{name} {returns.mean():.4g}" for name, returns in parts if len(returns))


def _summary(stats: EpisodeStats, steps: int, policies: list[str]) -> str:
    if not len(stats):
        return f"{steps} env steps, no episode ended"
    return (
        f"{steps} env steps, {len(stats)} episodes: reward mean {stats.rewards.mean():.4g} min {stats.rewards.min():.4g} "
        f"max {stats.rewards.max():.4g}  length mean {stats.lengths.mean():.4g}  {_by_policy(stats, policies)}"
    )
