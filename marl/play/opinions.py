"""What policies think of the decisions of an episode: of those that they made, and of those that others made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from marl.algos.joint_view import team_rewards
from marl.algos.learner import Learner
from marl.data.action_units import from_env, to_env
from marl.data.returns import returns_to_go
from marl.data.task import AgentID, AgentType, Array, Floats, PolicyID
from marl.errors import CheckpointError, ConfigError
from marl.play.episode import Tape
from marl.play.playable import Playable
from marl.policies.policy import Inputs, Insight, Policy
from marl.rollout.config import RolloutConfig
from marl.rollout.env_runner import EnvRunner

Numbers: TypeAlias = tuple[float, ...]


@dataclass(frozen=True)
class Opinion:
    """What a policy thinks of one decision; None: it has no such thing."""

    policy: PolicyID
    probabilities: tuple[Numbers, ...] | None = None  # of the options of each choice
    mean: Numbers | None = None  # greedy coordinates, as the env takes them
    std: Numbers | None = None
    q_values: Numbers | None = None
    value: float | None = None
    member: int | None = None  # of a mixture

    def to_json(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "member": self.member,
            "probabilities": _lists(self.probabilities),
            "mean": _lists(self.mean),
            "std": _lists(self.std),
            "q_values": _lists(self.q_values),
            "value": self.value,
        }


def _lists(numbers: Any) -> Any:
    if isinstance(numbers, tuple):
        return [_lists(number) for number in numbers]
    return numbers


class Place(NamedTuple):
    """A decision of an episode."""

    step: int
    seat: int


# -- those who played --------------------------------------------------------------------------------------------------


def opinions_of_players(playable: Playable, tape: Tape) -> dict[Place, Opinion]:
    """Every decision as the policy that made it saw it, with the memory that it had."""
    batch, config = tape.batch, playable.setup.rollout.config
    found: dict[Place, Opinion] = {}
    for index, name in enumerate(batch.policy_ids):
        policy, k = playable.cast.policies[name], playable.cast.kinds[name]
        kind = batch.task.kinds[k]
        steps, columns = np.nonzero((batch.present & (batch.policy_index == index))[:, 0, kind.seats])
        if not steps.size:
            continue
        inputs = Inputs(batch.obs[k][steps, 0, columns], batch.legal[k][steps, 0, columns], columns)
        if policy.draws_lots:
            inputs.episode_uniform = tape.drawn[name][kind.seats][columns]
        carry = batch.carry[k][steps, 0, columns][:, : policy.carry_size]
        insight = policy.insight(inputs, carry, explore=tape.which.explore)
        for row, (step, column) in enumerate(zip(steps.tolist(), columns.tolist(), strict=True)):
            place = Place(step, kind.first_seat + column)
            found[place] = _opinion(name, policy, insight, row, kind, config)
    return found


def _opinion(
    name: PolicyID, policy: Policy, insight: Insight, row: int, kind: AgentType, config: RolloutConfig
) -> Opinion:
    columns = kind.columns
    probabilities: tuple[Numbers, ...] | None = None
    if insight.probabilities is not None:
        parts = columns.options_of(insight.probabilities[[row]])
        probabilities = tuple(_numbers(part[0]) for _, part in parts)
    mean, std = None, None
    if insight.mean is not None:
        mean, std = _coordinates(policy, insight, row, kind, config)
    return Opinion(
        name,
        probabilities,
        mean,
        std,
        None if insight.q_values is None else _numbers(insight.q_values[row]),
        None if insight.value is None else float(insight.value[row]),
        None if insight.member is None else int(insight.member[row]),
    )


def _coordinates(
    policy: Policy, insight: Insight, row: int, kind: AgentType, config: RolloutConfig
) -> tuple[Numbers, Numbers | None]:
    """Mean and deviation as the env counts: networks may speak of -1..1 of the bounds."""
    columns, at = kind.columns, list(kind.columns.numbers)
    assert insight.mean is not None
    action = np.zeros(len(columns), np.float32)
    action[at] = insight.mean[row]
    stretches = config.normalize_actions and not policy.env_units
    mean = action if policy.env_units else to_env(action, columns, config)
    if insight.std is None:
        return _numbers(mean[at]), None
    low, high = columns.bounds
    half = np.ones(len(columns), np.float32)
    if stretches:
        half[columns.bounded] = (high - low)[columns.bounded] / 2
    return _numbers(mean[at]), _numbers(insight.std[row] * half[at])


def _numbers(array: Array) -> Numbers:
    return tuple(float(number) for number in array)


# -- values and what came ----------------------------------------------------------------------------------------------


class Forecasts(NamedTuple):
    """What critics say, and why some say nothing."""

    values: dict[Place, float]
    missing: str


def values_of_critics(playable: Playable, tape: Tape) -> Forecasts:
    """Values by the critics of the run's learners, of decisions whose outcome is known."""
    try:
        learners = playable.learners
    except CheckpointError as error:
        return Forecasts({}, str(error))
    missing = ""
    if not playable.keeps_learners:
        missing = "no critics are kept there: take the newest checkpoint of the run, or `best`"
    values: dict[Place, float] = {}
    for name, learner in learners.items():
        if name in playable.replaced or name not in tape.batch.policy_ids:
            continue
        for place, value in _values_of(learner, name, playable, tape):
            values[place] = value
    return Forecasts(values, missing)


def _values_of(learner: Learner, name: PolicyID, playable: Playable, tape: Tape) -> Iterator[tuple[Place, float]]:
    config = playable.setup.roles[name].config
    if getattr(config, "objective", None) == "pg":
        return  # it has a critic that never learns
    rows = tape.batch.for_policy(name, kind=playable.cast.kinds[name])
    if not len(rows):
        return
    try:
        found = learner.value_function(name, tape.batch)
    except ConfigError:  # an algorithm without a critic
        return
    for step, seat, value in zip(rows["row"].tolist(), rows["seat"].tolist(), found.tolist(), strict=True):
        yield Place(step, seat), float(value)


def returns_that_came(playable: Playable, tape: Tape, name: PolicyID) -> Floats:
    """``[T, A]``: the discounted sum of rewards from each step to the end of the agent's life, as the policy's learner
    counts them: a team's together with ``share_reward``, shifted and scaled where it learns from such rewards."""
    batch = tape.batch
    rewards = batch.rewards
    role = playable.setup.roles.get(name)
    if role is not None and name not in playable.replaced:
        if getattr(role.config, "share_reward", False):
            rewards = team_rewards(batch)
        shift = getattr(role.config, "reward_shift", 0.0)
        rewards = ((rewards + shift) * getattr(role.config, "reward_scale", 1.0)).astype(np.float32)
    came: Floats = returns_to_go(batch, rewards, playable.gamma(name))[:, 0]
    return came


def mixes(playable: Playable, name: PolicyID) -> bool:
    """Whether the policy's action values are parts of a team's value, or about rewards less their mean, so that no return can
    be held against them."""
    role = playable.setup.roles.get(name)
    if role is None:
        return False
    return getattr(role.config, "mixer", "none") != "none" or getattr(role.config, "center_rewards", False)


# -- those who did not play --------------------------------------------------------------------------------------------


class Shadow:
    """A policy that looks on: it sees what an agent saw, remembers what the agent did, and says what it would have done."""

    def __init__(self, policy: Policy, name: PolicyID, kind: int, config: RolloutConfig) -> None:
        self.policy, self.name, self.kind, self.config = policy, name, kind, config
        self.carry = np.zeros((1, policy.carry_size), np.float32)

    def follow(self, tape: Tape, agent: AgentID, until: int | None = None) -> Iterator[tuple[Place, Opinion, Array]]:
        """Every decision of the agent before step ``until``: where, what the policy thinks, what it would do (as stored)."""
        batch, k = tape.batch, self.kind
        kind = batch.task.kinds[k]
        quiet = np.random.default_rng(0)
        self.carry[:] = 0.0
        for step in range(len(tape) if until is None else until):
            seat = tape.seat_of(agent, step)
            if seat is not None:
                column = seat - kind.first_seat
                inputs = Inputs(batch.obs[k][step][:, column], batch.legal[k][step][:, column], np.array([column]))
                if self.policy.draws_lots:
                    inputs.episode_uniform = self.policy.draw(tape.lots[[seat]])
                insight = self.policy.insight(inputs, self.carry, explore=tape.which.explore)
                decision = self.policy.act(inputs, self.carry, quiet, explore=False)
                yield (
                    Place(step, seat),
                    _opinion(self.name, self.policy, insight, 0, kind, self.config),
                    decision.actions[0],
                )
                done = batch.actions[k][step][:, column]
                self.carry = self.policy.recarried(inputs, self.carry, decision.carry, done).copy()
            self._live(tape, agent, step)

    def _live(self, tape: Tape, agent: AgentID, step: int) -> None:
        """What was paid is remembered where the policy looks at it; an agent that ended begins without memory."""
        seat = tape.living_on(agent, step)
        if not self.policy.carry_size or seat is None:
            return
        batch = tape.batch
        if self.policy.remembers_reward:
            self.carry[:, -1] += batch.rewards[step, 0, seat]
        if batch.terminateds[step, 0, seat] or batch.truncateds[step, 0, seat]:
            self.carry[:] = 0.0


def second_opinions(playable: Playable, tape: Tape, source: str) -> dict[Place, tuple[Opinion, Array]]:
    """What the policies of another checkpoint, run or export think of the same states, and what they would do there.

    Each looks at the agents of the policy of its name. What agents did is what was done in the episode, also in memories.
    """
    found: dict[Place, tuple[Opinion, Array]] = {}
    config = playable.setup.rollout.config
    for agent, name in tape.policies.items():
        k = playable.cast.kinds[name]
        shadow = Shadow(playable.other_policy(source, k, name), name, k, config)
        for place, opinion, action in shadow.follow(tape, agent):
            found[place] = (opinion, action)
    return found


# -- before anything is done -------------------------------------------------------------------------------------------


def opinion_now(runner: EnvRunner, seat: int, explore: bool) -> tuple[Opinion, Array]:
    """What the policy of a seat that is asked now thinks, and what it would do (as stored), in a runner of one copy.

    Nothing is decided, drawn from the episode's generators, or remembered.
    """
    env = runner.env
    k = next(k for k, kind in enumerate(env.kinds) if kind.seats.start <= seat < kind.seats.stop)
    kind = env.kinds[k]
    column, index = seat - kind.first_seat, int(runner.policy_of[0, seat])
    policy, name = runner.policies[index], runner.policy_ids[index]
    inputs = Inputs(runner.view.obs[k][:, column], runner.view.legal[k][:, column], np.array([column]))
    if policy.draws_lots:
        lots = runner.drawn[name][:, seat]
        if runner.t[0] == 0:  # they are settled with the first decision
            lots = policy.draw(runner.episode_uniform[:, seat])
        inputs.episode_uniform = lots
    carry = runner.carry[k][:, column, : policy.carry_size].copy()
    insight = policy.insight(inputs, carry, explore=explore)
    decision = policy.act(inputs, carry, np.random.default_rng(0), explore=False)
    stored = decision.actions[0]
    if policy.env_units:
        stored = from_env(stored, kind.columns, runner.config)
    return _opinion(name, policy, insight, 0, kind, runner.config), stored
