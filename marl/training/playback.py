"""Playing a trained run: no learner, no files, just the policies of a checkpoint in their world."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from marl.data.episode import EpisodeStats
from marl.envs.registry import make_world
from marl.errors import ConfigError
from marl.policies.build import build_policies
from marl.registry import only_modules
from marl.rollout.player import Player
from marl.scenario.load import compose
from marl.scenario.setup import set_up
from marl.training.checkpoint import find_checkpoint, read_part
from marl.training.store import set_weights


def play(
    path: Path,
    episodes: int,
    steps: int | None,
    explore: bool,
    seed: int,
    allow: frozenset[str] = frozenset(),
    render: bool = False,
) -> Iterator[str]:
    """Lines to print: one per episode, then the means. With ``steps`` exactly so many env steps are played."""
    folder = find_checkpoint(path)
    player = load_player(folder, allow)
    rng = np.random.default_rng([seed, 1])
    ended: list[EpisodeStats] = []
    played = 0
    player.begin(np.array([0]), np.array([seed]))
    while (played < steps) if steps is not None else (len(ended) < episodes):
        frame = player.advance(player.decide(rng, explore=explore))
        played += 1
        if render:
            yield _text(player)
        if player.settle(frame).size:
            ended.append(player.ledger.pop())
            yield f"episode {len(ended)}  {_episode(ended[-1], player.policy_ids)}"
            player.begin(np.array([0]), np.array([seed + len(ended)]))
    yield _summary(EpisodeStats.concat(ended), played, player.policy_ids)


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
    return Player(world, policies, kinds, setup.rollout.mapper, setup.rollout.config)


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
