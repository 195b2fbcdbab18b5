"""A branch: an episode as it was until a step, with something else done there, and played on once from it.

The agent does another action in the step, or is played by another policy from it on. All else goes as in the episode: its
seed, and the random numbers that its policies draw. So a branch with the action that was taken *is* the episode, and what a
branch shows else comes from the other action alone, until others draw more or fewer numbers than they did.

One branch is an example. What the other action changes on average is asked of ``what_if``.
"""

from __future__ import annotations

import numpy as np

from marl.envs.vector.episode_log import LONGEST_REPLAY
from marl.play.episode import Player, Tape, check_repeated, play_before
from marl.play.playable import Playable
from marl.play.takeover import Instead, Takeover
from marl.play.trace import Trace, traced
from marl.rollout.deciding import Actions
from marl.rollout.env_runner import EnvRunner


def trace_branch(
    playable: Playable,
    tape: Tape,
    question: Instead,
    *,
    other: str | None = None,
    frames: bool = False,
    scenes: bool = False,
    longest: int = LONGEST_REPLAY,
) -> Trace:
    """The whole episode as it goes in this branch. The step must be one of the episode, and the agent asked in it.

    The other policy is called ``(instead)`` in it. ``other`` is that of ``trace_episode``, ``frames`` and ``scenes``
    are those of ``play_episode``.
    """
    takeover = Takeover(playable, tape, question)
    return traced(takeover.playable, _play(takeover, frames, scenes, longest), other)


def _play(takeover: Takeover, frames: bool, scenes: bool, longest: int) -> Tape:
    playable, which = takeover.playable, takeover.tape.which
    runner = playable.runner(render_mode="rgb_array" if frames or scenes else None, with_state=True)
    try:
        rng = np.random.default_rng([which.first_seed, 1])
        # Also where what was done is recorded: the policies go on with the numbers that they drew from in that rollout.
        play_before(runner, which, rng, longest)
        return _BranchPlayer(takeover, runner, frames, scenes).play(rng, longest)
    finally:
        runner.env.close()


class _BranchPlayer(Player):
    """Does what was done until the step, and lets the policies decide after it."""

    def __init__(self, takeover: Takeover, runner: EnvRunner, frames: bool, scenes: bool) -> None:
        super().__init__(takeover.playable, runner, takeover.tape.which, frames, scenes)
        self.takeover = takeover

    def _decide(self, step: int, rng: np.random.Generator) -> Actions:
        runner, at = self.runner, self.takeover.question.step
        if step <= at:
            check_repeated(runner, self.takeover.tape.batch, step)
        if step == at:
            self.takeover.seat_other(runner)
        # All policies decide in every step, also where it is known what they did: they draw as they drew.
        choices = runner.decide(rng, explore=self.which.explore)
        if step <= at:
            self.takeover.do(runner, choices, step, instead=step == at)
        return choices
