"""Recorded episodes that nobody can play again, such as those of training: what the file holds, and what policies think of it.

No env is played, so there are no pictures, and nothing else can be tried. Agents that come and go have the names of their
seats, as in ``marl replay``: recordings do not know others.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from marl.data.task import AgentID, Floats, Ints, PolicyID
from marl.envs.batched import BatchedEnv
from marl.envs.branching import action_names
from marl.errors import DataError
from marl.offline.manifest import read_manifest
from marl.offline.trajectories import Trajectories, read_trajectories
from marl.offline.view import files_of
from marl.play.episode import Tape, Which
from marl.play.opinions import Shadow
from marl.play.playable import Playable
from marl.rollout.env_runner import episode_uniform
from marl.scenario.routing import candidates, example_agent


def recorded_tape(playable: Playable, path: Path, number: int) -> Tape:
    """Episode ``number`` of a recording, with the memories that the policies of the run would have had in it."""
    files = files_of(path)
    task = playable.setup.task
    found = read_trajectories(files, task, playable.setup.rollout.config.normalize_actions)
    if not 0 <= number < len(found):
        raise DataError(
            f"{path} has no episode {number}: it has the episodes 0 to {len(found) - 1}. Take one of these."
        )
    chosen = np.array([number])
    policy_ids = list(playable.cast.policies)
    playing = _who_plays(playable, found, number, read_manifest(files[0].parent)["policies"])
    batch = found.batch(chosen, policy_ids, playing[None])
    seats = list(task.seat_names)
    names = [seats] * len(batch.t)
    paid = found.returns(chosen)[0]
    there = np.flatnonzero(found.seen(chosen)[0] | (paid != 0)).tolist()
    runner = playable.runner()  # to ask the env for names; it is not played
    called = _names_of_actions(runner.env, [seats[seat] for seat in there])
    runner.env.close()
    # Which number an episode drew is not recorded either; it only matters to policies that are mixtures.
    lots = episode_uniform(np.array([0]), runner.teams)[0]
    drawn = {name: policy.draw(lots) for name, policy in playable.cast.policies.items() if policy.draws_lots}
    tape = Tape(
        Which(number),
        runner.env.name,
        batch,
        asked=names,
        paid=names,
        late=[],
        returns={seats[seat]: float(paid[seat]) for seat in there},
        policies={seats[seat]: policy_ids[playing[seat]] for seat in there},
        lots=lots,
        drawn=drawn,
        action_names=called,
    )
    _remember(playable, tape)
    return tape


def _who_plays(playable: Playable, found: Trajectories, number: int, recorded: list[PolicyID]) -> Ints:
    """The policy of each seat by its number: of the name that was recorded if the run has it, else who plays such agents."""
    task, kinds = playable.setup.task, playable.cast.kinds
    ids = list(playable.cast.policies)
    rows = slice(found.starts[number], found.starts[number + 1])
    playing = np.zeros(task.num_seats, np.int64)
    for seat, name in enumerate(task.seat_names):
        index = int(found.columns["policy"][rows, seat].max(initial=-1))
        called = recorded[index] if 0 <= index < len(recorded) else ""
        if kinds.get(called) != task.kind_of(seat):
            called = next(iter(candidates(playable.cast.mapper, example_agent(name))))
        playing[seat] = ids.index(called)
    return playing


def _names_of_actions(env: BatchedEnv, agents: list[AgentID]) -> dict[AgentID, tuple[str, ...]]:
    found: dict[AgentID, tuple[str, ...]] = {}
    for agent in agents:
        called = action_names(env, example_agent(agent))
        if called:
            found[agent] = called
    return found


def _remember(playable: Playable, tape: Tape) -> None:
    """Fill in what policies with a memory would have remembered before each decision."""
    batch = tape.batch
    widths = [0] * len(batch.task.kinds)
    for name, k in playable.cast.kinds.items():
        widths[k] = max(widths[k], playable.cast.policies[name].carry_size)
    carry: list[Floats] = []
    for kind, width in zip(batch.task.kinds, widths, strict=True):
        carry.append(np.zeros((len(tape), 1, kind.size, width), np.float32))
    for agent, name in tape.policies.items():
        policy, k = playable.cast.policies[name], playable.cast.kinds[name]
        shadow = Shadow(policy, name, k, playable.setup.rollout.config)
        for (step, seat), _, _ in shadow.follow(tape, agent):
            column = seat - batch.task.kinds[k].first_seat
            # The policy looks back on this decision once it goes on: now its memory is that of before.
            carry[k][step, 0, column, : policy.carry_size] = shadow.carry[0]
    batch.carry = carry
