"""What a trained run would earn, by episodes that others have played: ``marl estimate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from marl.errors import ConfigError
from marl.offline.estimators import ESTIMATORS
from marl.offline.judging import Judge
from marl.offline.source import find_files, who_plays_all
from marl.offline.trajectories import read_trajectories
from marl.play.changes import NOTHING, Changes
from marl.play.playable import Playable

ALL = ("is", "wis", "dr")


def estimate_checkpoint(
    checkpoint: Path | str,
    recordings: Path | str,
    estimators: Sequence[str] = ALL,
    *,
    gamma: float = 1.0,
    greedy: bool = False,
    allow: frozenset[str] = frozenset(),
    changes: Changes = NOTHING,
) -> dict[str, Any]:
    """By policy of the checkpoint: ``{"is": {"value": ..., "low": ..., "high": ...}, ..., "effective_episodes": ...}``.

    ``recordings`` is a directory, a file or a pattern, as behind ``input:``; it has to hold how likely its decisions were.
    ``gamma`` discounts per env step (1: the sum of rewards, as ``policy_reward_mean``). ``greedy``: judged is the likeliest
    action instead of a draw. Low and high are the ends of a 95 % interval.
    """
    for name in estimators:
        ESTIMATORS[name]  # an unknown name is refused before anything is read
    if not 0 < gamma <= 1:
        raise ConfigError(f"gamma is {gamma}; expected a discount above 0 and up to 1.")
    files = find_files(str(recordings))
    playable = Playable.open(Path(checkpoint), allow, changes)
    setup = playable.setup
    data = read_trajectories(files, setup.task, setup.rollout.config.normalize_actions)
    policies = {name: playable.cast.policies[name] for name in setup.policies}
    judge = Judge(data, policies, list(setup.roles), who_plays_all(setup, data))
    return judge.measure(estimators, gamma, greedy)
