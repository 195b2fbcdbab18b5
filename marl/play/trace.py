"""A trace: one episode step by step, with what every policy thought, as a form that pages and other programs can read.

    trace = trace_episode(Playable.open(Path(RUN), frozenset()), Which(number=17))
    json.dumps(trace.to_json())

The JSON form is documented in docs/why.md. Names in it stay; a change that old readers would misread raises ``VERSION``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from marl.data.action_units import to_env
from marl.data.actions import decoder
from marl.data.task import AgentID, AgentType, Array, Floats, PolicyID
from marl.envs.base import Action, Obs
from marl.envs.vector.episode_log import LONGEST_REPLAY
from marl.errors import DataError
from marl.offline.view import open_recording
from marl.play.episode import Tape, Which, play_episode
from marl.play.opinions import (
    Forecasts,
    Opinion,
    Place,
    mixes,
    opinions_of_players,
    returns_that_came,
    second_opinions,
    values_of_critics,
)
from marl.play.playable import Playable
from marl.policies.scripted import as_shown
from marl.rollout.config import RolloutConfig

FORMAT, VERSION = "marl-trace", 1


@dataclass(frozen=True)
class AgentStep:
    """One agent in one step. Who is not asked has neither observation nor action, but may be paid, or end."""

    agent: AgentID
    policy: PolicyID | None
    reward: float
    asked: bool = False
    observation: Obs = None
    action_mask: tuple[bool, ...] | None = None  # of the options of all choices side by side
    action: Action = None
    action_name: str | None = None
    terminated: bool = False
    truncated: bool = False
    opinion: Opinion | None = None
    expected: float | None = (
        None  # the value of the decision: of the action that was taken, where there are action values
    )
    came: float | None = None  # the discounted return that really came
    other: Opinion | None = None  # of a second checkpoint in the same state
    other_action: Action = None

    @property
    def error(self) -> float | None:
        """How much too much was expected."""
        if self.expected is None or self.came is None:
            return None
        return self.expected - self.came

    def to_json(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "policy": self.policy,
            "asked": self.asked,
            "observation": plain(self.observation),
            "action_mask": plain(self.action_mask),
            "action": plain(self.action),
            "action_name": self.action_name,
            "reward": self.reward,
            "terminated": self.terminated,
            "truncated": self.truncated,
            "opinion": None if self.opinion is None else self.opinion.to_json(),
            "expected": self.expected,
            "came": self.came,
            "error": self.error,
            "other": None if self.other is None else self.other.to_json(),
            "other_action": plain(self.other_action),
        }


@dataclass(frozen=True)
class Trace:
    """One episode. ``steps[t]`` holds the agents of step ``t`` by their ids."""

    env: str
    checkpoint: str
    number: int
    seed: int
    explore: bool
    steps: tuple[Mapping[AgentID, AgentStep], ...]
    returns: Mapping[AgentID, float]
    gammas: Mapping[PolicyID, float]
    names: Mapping[AgentID, tuple[str, ...]]  # of Discrete actions, where the env names them
    cut: bool = False
    missing_values: str = ""  # why no critic says anything
    tape: Tape = field(repr=False, compare=False, kw_only=True)  # to come back to a step; not part of the JSON form

    def __len__(self) -> int:
        return len(self.steps)

    def most_wrong(self, most: int | None = None) -> list[tuple[int, AgentStep]]:
        """Step and agent of the decisions whose value was wrong, the worst first; only those of which both are known."""
        found = []
        for step, agents in enumerate(self.steps):
            for one in agents.values():
                if one.error is not None:
                    found.append((step, one))
        found.sort(key=lambda pair: -abs(pair[1].error or 0.0))
        return found[:most]

    def to_json(self) -> dict[str, Any]:
        wrong = []
        for step, one in self.most_wrong():
            wrong.append(
                {"step": step, "agent": one.agent, "expected": one.expected, "came": one.came, "error": one.error}
            )
        steps = []
        for number, agents in enumerate(self.steps):
            steps.append({"step": number, "agents": [one.to_json() for one in agents.values()]})
        return {
            "format": FORMAT,
            "version": VERSION,
            "env": self.env,
            "checkpoint": self.checkpoint,
            "episode": self.number,
            "seed": self.seed,
            "explore": self.explore,
            "length": len(self),
            "cut": self.cut,
            "returns": dict(self.returns),
            "gammas": dict(self.gammas),
            "action_names": {agent: list(names) for agent, names in self.names.items()},
            "missing_values": self.missing_values,
            "most_wrong": wrong,
            "steps": steps,
        }


# -- making ------------------------------------------------------------------------------------------------------------


def trace_episode(
    playable: Playable, which: Which, *, other: str | None = None, frames: bool = False, longest: int = LONGEST_REPLAY
) -> Trace:
    """Play an episode and note everything. ``other`` is a second checkpoint, run or export to ask in the same states;
    with ``frames`` the tape has what the env draws."""
    tape = play_episode(playable, which, frames=frames, longest=longest)
    return traced(playable, tape, other)


def recorded_episode(path: Path, number: int, first_seed: int, explore: bool = False) -> Which:
    """An episode of ``marl rollout --save``: what was done is in the file, its seed follows from that of the rollout."""
    recording = open_recording(path)
    if not 0 <= number < len(recording.episodes):
        raise DataError(
            f"{path} has no episode {number}: it has the episodes 0 to {len(recording.episodes) - 1}. Take one of these."
        )
    rows = recording.episodes[number].rows
    kinds = range(1 + max(recording.kinds))
    actions = [np.asarray(rows[f"actions.{k}"]) for k in kinds]
    return Which(number, first_seed, explore, actions, [np.asarray(rows[f"obs.{k}"]) for k in kinds])


def traced(playable: Playable, tape: Tape, other: str | None = None) -> Trace:
    """The trace of an episode that was played."""
    maker = _Maker(playable, tape, other)
    steps = [maker.step(step) for step in range(len(tape))]
    players = dict.fromkeys(tape.policies.values())
    return Trace(
        env=maker.env_name,
        checkpoint=str(playable.folder),
        number=tape.which.number,
        seed=tape.which.seed,
        explore=tape.which.explore,
        steps=tuple(steps),
        returns=tape.returns,
        gammas={name: playable.gamma(name) for name in players},
        names=maker.names,
        cut=tape.cut,
        missing_values=maker.critics.missing,
        tape=tape,
    )


class _Maker:
    """Puts together what is known of each agent in each step."""

    def __init__(self, playable: Playable, tape: Tape, other: str | None) -> None:
        self.playable, self.tape = playable, tape
        self.config = playable.setup.rollout.config
        self.env_name = tape.env_name
        self.names = tape.action_names
        self.opinions = opinions_of_players(playable, tape)
        self.critics: Forecasts = values_of_critics(playable, tape)
        self.others: Mapping[Place, tuple[Opinion, Array]] = {}
        if other is not None:
            self.others = second_opinions(playable, tape, other)
        self.came: dict[PolicyID, Floats] = {}
        for name in tape.batch.policy_ids:
            self.came[name] = returns_that_came(playable, tape, name)

    def step(self, step: int) -> dict[AgentID, AgentStep]:
        batch = self.tape.batch
        found: dict[AgentID, AgentStep] = {}
        counts = batch.alive[step, 0] | (batch.rewards[step, 0] != 0)
        for seat in np.flatnonzero(counts).tolist():
            if batch.present[step, 0, seat]:
                one = self._decision(Place(step, seat))
            else:
                agent = self.tape.paid[step][seat]
                one = AgentStep(agent, self.tape.policies.get(agent), **self._outcome(Place(step, seat)))
            found[one.agent] = one
        for when, agent, reward in self.tape.late:
            if when == step and agent not in found:
                found[agent] = AgentStep(agent, self.tape.policies.get(agent), reward)
        return found

    def _outcome(self, place: Place) -> dict[str, Any]:
        batch, (step, seat) = self.tape.batch, place
        return {
            "reward": float(batch.rewards[step, 0, seat]),
            "terminated": bool(batch.terminateds[step, 0, seat]),
            "truncated": bool(batch.truncateds[step, 0, seat]),
        }

    def _decision(self, place: Place) -> AgentStep:
        batch, (step, seat) = self.tape.batch, place
        k = batch.task.kind_of(seat)
        kind = batch.task.kinds[k]
        column = seat - kind.first_seat
        stored, mask = batch.actions[k][step, 0, column], batch.legal[k][step, 0, column]
        agent = self.tape.asked[step][seat]
        opinion = self._with_critic(place)
        other, other_action = self.others.get(place, (None, None))
        return AgentStep(
            agent,
            opinion.policy,
            asked=True,
            observation=as_shown(kind, batch.obs[k][step, 0, column]),
            action_mask=tuple(mask.tolist()) if mask.size else None,
            action=as_env_takes(kind, stored, self.config),
            action_name=self._name(agent, stored),
            opinion=opinion,
            expected=self._expected(opinion, stored),
            came=float(self.came[opinion.policy][step, seat]),
            other=other,
            other_action=None if other_action is None else as_env_takes(kind, other_action, self.config),
            **self._outcome(place),
        )

    def _with_critic(self, place: Place) -> Opinion:
        opinion, value = self.opinions[place], self.critics.values.get(place)
        if value is None or opinion.value is not None:
            return opinion
        return Opinion(**{**vars(opinion), "value": value})

    def _expected(self, opinion: Opinion, stored: Array) -> float | None:
        if opinion.q_values is None:
            return opinion.value
        # Values of a mixed team's member, or of one that does not play (nfsp's best response), foretell no agent's return.
        if opinion.value is None or mixes(self.playable, opinion.policy):
            return None
        return opinion.q_values[int(stored)]

    def _name(self, agent: AgentID, stored: Array) -> str | None:
        names = self.names.get(agent)
        if not names or np.ndim(stored):
            return None
        return names[int(stored)]


# -- forms -------------------------------------------------------------------------------------------------------------


def as_env_takes(kind: AgentType, stored: Array, config: RolloutConfig) -> Action:
    """A stored action as the env is given it."""
    columns = kind.columns
    return decoder(kind.action_space)(np.asarray(to_env(stored, columns, config)).tolist())


def plain(value: Any) -> Any:
    """Numbers, lists and dicts, as JSON has them; NaN and infinities, which it has not, become None."""
    match value:
        case np.ndarray() | np.generic():
            return plain(value.tolist())
        case dict():
            items = {}
            for key, inner in value.items():
                items[str(key)] = plain(inner)
            return items
        case list() | tuple():
            return list(map(plain, value))
        case float():
            if not np.isfinite(value):
                return None
            return value
    return value
