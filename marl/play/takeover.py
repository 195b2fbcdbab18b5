"""Somebody does something else in a step of an episode: another action, or another policy from there on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from marl.data.task import AgentID, Array, Bools, PolicyID
from marl.play.episode import Tape, force
from marl.play.opinions import Shadow
from marl.play.playable import Playable
from marl.play.policy_sources import Cast
from marl.policies.policy import Policy
from marl.rollout.deciding import Actions
from marl.rollout.env_runner import EnvRunner, episode_uniform

OTHER: PolicyID = "(instead)"
"""The id of the policy that plays instead; no policy of a scenario can be called so."""


@dataclass(frozen=True)
class Instead:
    """Who does something else from when on. ``action`` is as stored (see ``action_from_text``); None: ``policy`` decides."""

    step: int
    agent: AgentID
    action: Array | None = None
    policy: str | None = None  # a policy of the run, or a source as behind --policy


class Takeover:
    """A question about an episode that was played, ready to be played out: where the agent sits, and who else plays it."""

    def __init__(self, playable: Playable, tape: Tape, question: Instead) -> None:
        self.tape, self.question = tape, question
        seat = tape.seat_of(question.agent, question.step)
        assert seat is not None, "check_question comes first"
        self.seat, self.k = seat, tape.batch.task.kind_of(seat)
        self.policy: Policy | None = None
        self.memory: Array = np.zeros(0, np.float32)
        if question.policy is not None:
            playing = tape.policies[question.agent]
            self.policy = playable.other_policy(question.policy, self.k, playing)
            self.memory = self._memory(playable, self.policy)
        self.playable = _with_other(playable, self.policy, self.k)

    def _memory(self, playable: Playable, policy: Policy) -> Array:
        """What the other policy remembers of the agent's life so far, as if it had looked on."""
        shadow = Shadow(policy, OTHER, self.k, playable.setup.rollout.config)
        for _ in shadow.follow(self.tape, self.question.agent, until=self.question.step):
            pass
        remembered: Array = shadow.carry[0]
        return remembered

    def seat_other(self, runner: EnvRunner) -> None:
        """The other policy takes the agent's place in all copies; a runner stands before the step."""
        if self.policy is None:
            return
        runner.policy_of[:, self.seat] = runner.policy_ids.index(OTHER)
        for episode in runner.episodes:
            episode.policies[self.question.agent] = OTHER
        column = self.seat - runner.env.kinds[self.k].first_seat
        # Columns are as wide as the policy that remembers most: what is left of another's memory must not stay.
        runner.carry[self.k][:, column] = 0.0
        runner.carry[self.k][:, column, : self.policy.carry_size] = self.memory
        if self.policy.draws_lots:
            lots = episode_uniform(np.full(runner.env.num_envs, self.tape.which.seed), runner.teams)
            runner.drawn[OTHER][:] = self.policy.draw(lots)

    def do(self, runner: EnvRunner, choices: Actions, step: int, *, instead: bool) -> None:
        """A step of the episode: all do what they did, and the agent perhaps the other thing."""
        batch, copies = self.tape.batch, runner.env.num_envs
        for k, kind in enumerate(runner.env.kinds):
            here: Bools = np.repeat(batch.present[step][:, kind.seats], copies, axis=0)
            actions = np.repeat(batch.actions[k][step], copies, axis=0)
            if instead and k == self.k:
                column = self.seat - kind.first_seat
                if self.question.action is None:
                    here[:, column] = False  # the other policy has decided
                else:
                    actions[:, column] = self.question.action
            force(runner, choices, k, here, actions[here])


def _with_other(playable: Playable, policy: Policy | None, kind: int) -> Playable:
    """The same run with one policy more, which plays nobody at first."""
    if policy is None:
        return playable
    before = playable.cast
    cast = Cast({**before.policies, OTHER: policy}, {**before.kinds, OTHER: kind}, before.mapper)
    return replace(playable, cast=cast, replaced=playable.replaced | {OTHER})
