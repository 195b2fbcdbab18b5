"""One episode, played and kept whole: everything that is needed to look at it, and to come back to any of its steps.

Episode ``number`` of a run has the seed ``seed + number`` and goes as in ``marl rollout --seed SEED``: where policies draw,
the episodes before it are played as well, because one generator draws for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from marl.data.batch import MultiAgentBatch
from marl.data.task import AgentID, Array, Bools, PolicyID
from marl.envs.batched import State, StepOutput
from marl.envs.branching import action_names
from marl.envs.scenes import Scene, remembering, scene_of
from marl.envs.vector.episode_log import LONGEST_REPLAY
from marl.errors import ConfigError, DataError, EnvError
from marl.play.playable import Playable
from marl.play.return_summary import returns_by_agent
from marl.play.video import picture_by
from marl.policies.deterministic import DeterministicPolicy
from marl.policies.policy import Inputs, Policy
from marl.policies.scripted import FixedPolicy
from marl.policies.squashed import SquashedPolicy
from marl.policies.stochastic import StochasticPolicy
from marl.policies.value import ValuePolicy
from marl.policies.value_table import ValueTable
from marl.rollout.deciding import Actions
from marl.rollout.env_runner import EnvRunner, episode_uniform
from marl.rollout.rollout_buffer import RolloutBuffer

QUIET = (StochasticPolicy, ValuePolicy, SquashedPolicy, DeterministicPolicy, FixedPolicy, ValueTable)
"""Policies that draw nothing when they play greedily."""


@dataclass(frozen=True)
class Which:
    """Which episode: its number from 0 on, the seed of number 0, how it is played, and what was done in it if it is known."""

    number: int = 0
    first_seed: int = 0
    explore: bool = False
    recorded: Sequence[Array] | None = None  # actions of a recording, per kind [T, A_k, ...]; None: the policies decide
    recorded_obs: Sequence[Array] | None = None  # what was seen then, to know that it is the same episode

    @property
    def seed(self) -> int:
        return self.first_seed + self.number


@dataclass
class Tape:
    """An episode of one copy of the env: the grid that learners would get, and who sat where."""

    which: Which
    env_name: str
    batch: MultiAgentBatch  # [T, 1, ...], with what policies remembered before each decision
    asked: list[list[AgentID]]  # by step and seat, before the step
    paid: list[list[AgentID]]  # by step and seat, after the step
    late: list[tuple[int, AgentID, float]]  # step, agent, reward: paid to agents that have no seat any more
    returns: dict[AgentID, float]  # whole returns, late rewards included
    policies: dict[AgentID, PolicyID]
    lots: NDArray[np.float64]  # by seat, see Policy.draw
    drawn: dict[PolicyID, NDArray[np.float64]]  # what the lots mean to policies that draw, by seat
    action_names: dict[AgentID, tuple[str, ...]]  # of Discrete actions, where the env names them
    cut: bool = False  # whether it was too long and not played to its end
    frames: list[Array | str | None] = field(default_factory=list)  # pictures before the first step and after each
    scenes: list[Scene | None] = field(default_factory=list)  # drawings at the same moments

    def __len__(self) -> int:
        return len(self.asked)

    def seat_of(self, agent: AgentID, step: int) -> int | None:
        """Where an agent sits that is asked in this step; None if it is not asked."""
        for seat in np.flatnonzero(self.batch.present[step, 0]).tolist():
            if self.asked[step][seat] == agent:
                return seat
        return None

    def living_on(self, agent: AgentID, step: int) -> int | None:
        """Where an agent sits that lives in this step, asked or not; None if it does not live."""
        for seat in np.flatnonzero(self.batch.alive[step, 0]).tolist():
            if self.paid[step][seat] == agent:
                return seat
        return None

    def steps_of(self, agent: AgentID) -> list[int]:
        """The steps in which an agent is asked."""
        found = []
        for step in range(len(self)):
            if self.seat_of(agent, step) is not None:
                found.append(step)
        return found

    @property
    def agents(self) -> list[AgentID]:
        """All that were ever asked or paid, in the order in which they came."""
        found: dict[AgentID, None] = {}
        for step in range(len(self)):
            for seat in np.flatnonzero(self.batch.present[step, 0]).tolist():
                found[self.asked[step][seat]] = None
        return list(found | dict.fromkeys(self.returns))


# -- playing -----------------------------------------------------------------------------------------------------------


def play_episode(
    playable: Playable, which: Which, *, frames: bool = False, scenes: bool = False, longest: int = LONGEST_REPLAY
) -> Tape:
    """Play it now; one that is longer than ``longest`` steps is cut there."""
    _refuse_external(playable)
    # Envs without scenes of their own are drawn by their render, which may have to be told when they are built.
    draws_pictures = frames or scenes
    runner = playable.runner(render_mode="rgb_array" if draws_pictures else None, with_state=True)
    try:
        rng = np.random.default_rng([which.first_seed, 1])
        if which.recorded is None:
            play_before(runner, which, rng, longest)
        return Player(playable, runner, which, frames, scenes).play(rng, longest)
    finally:
        runner.env.close()


def draws(runner: EnvRunner, explore: bool) -> bool:
    """Whether any of the policies may use the random generator."""
    return explore or not all(map(_is_quiet, runner.policies))


def _is_quiet(policy: Policy) -> bool:
    # A distribution of the user's own may draw also when it is asked for its best guess.
    family = type(getattr(policy, "distribution", None)).__module__
    return type(policy) in QUIET and (family.startswith("marl.") or family == "builtins")


def _refuse_external(playable: Playable) -> None:
    if playable.setup.scenario.env == "external":
        raise ConfigError(
            "the env of this run lives in a program of its own (env: external), which cannot be put back into a state. Give "
            "an env that can be reset here: --env NAME."
        )


def play_before(runner: EnvRunner, which: Which, rng: np.random.Generator, longest: int) -> None:
    """The episodes before it, for what they draw; nothing where nobody draws."""
    if not draws(runner, which.explore):
        return
    for number in range(which.number):
        runner.begin(np.array([0]), np.array([which.first_seed + number]))
        for _ in range(longest):
            output = runner.advance(runner.decide(rng, explore=which.explore))
            if runner.settle(output).size:
                break
    runner.stats.pop()


class Player:
    """Plays one episode and notes everything."""

    def __init__(self, playable: Playable, runner: EnvRunner, which: Which, frames: bool, scenes: bool) -> None:
        self.runner, self.which = runner, which
        self.with_frames, self.with_scenes = frames, scenes
        env = runner.env
        task = replace(playable.setup.task, kinds=env.kinds, state_size=env.state_size)
        memory = [column.shape[-1] for column in runner.carry]
        self.buffer = RolloutBuffer(task, runner.policy_ids, 1, complete_episodes=False, carry_sizes=memory)
        self.grids: list[MultiAgentBatch] = []
        self.asked: list[list[AgentID]] = []
        self.paid: list[list[AgentID]] = []
        self.late: list[tuple[int, AgentID, float]] = []
        self.frames: list[Array | str | None] = []
        self.scenes: list[Scene | None] = []

    def play(self, rng: np.random.Generator, longest: int) -> Tape:
        runner = self.runner
        runner.begin(np.array([0]), np.array([self.which.seed]))
        self._look()
        # Room for more steps is made by doubling: growing by one row would copy the episode at every step.
        room = 0
        for step in range(longest):
            if step == room:
                self.buffer.context = room
                self.buffer.extend(max(64, room))
                room += max(64, room)
            if self._step(step, rng):
                return self._tape(step + 1, cut=False)
        return self._tape(longest, cut=True)

    def _step(self, step: int, rng: np.random.Generator) -> bool:
        """Whether the episode is over."""
        runner = self.runner
        choices = self._decide(step, rng)
        self.asked.append(names_of(runner))
        self.buffer.record(step, runner, choices)
        output = runner.advance(choices)
        over = runner.settle(output)
        self.buffer.settle(step, runner, output)
        self._note(step, output)
        return bool(over.size)

    def _decide(self, step: int, rng: np.random.Generator) -> Actions:
        choices = self.runner.decide(rng, explore=self.which.explore)
        if self.which.recorded is not None:
            self._do_as_recorded(step, choices)
        return choices

    def _do_as_recorded(self, step: int, choices: Actions) -> None:
        actions, seen = self.which.recorded or [], self.which.recorded_obs or []
        length = len(actions[0])
        if step >= length:
            raise _other_episode(self.which, f"it goes on after step {length - 1}, the last one that was recorded")
        for k, kind in enumerate(self.runner.env.kinds):
            here = self.runner.view.present[:, kind.seats]
            shown = self.runner.view.obs[k][here]
            if len(seen) and not np.array_equal(shown, seen[k][step][here[0]]):
                raise _other_episode(self.which, f"agents see something else in step {step}")
            force(self.runner, choices, k, here, actions[k][step][here[0]])

    def _note(self, step: int, output: StepOutput) -> None:
        self.paid.append(names_of(self.runner))
        for _, agent, reward in output.late:
            self.late.append((step, agent, reward))
        self._look()

    def _look(self) -> None:
        if self.with_frames:
            self.frames.append(picture_by(self.runner.env))
        if self.with_scenes:
            before = self.scenes[-1] if self.scenes else None
            self.scenes.append(remembering(before, scene_of(self.runner.env, 0)))

    def _tape(self, steps: int, cut: bool) -> Tape:
        runner = self.runner
        self.buffer.context = 0
        self.buffer.extend(steps)  # the rows that were not needed go
        returns: dict[AgentID, float] = {}
        if not cut:
            for agent, paid in returns_by_agent(runner.stats.pop()).items():
                returns[agent] = float(paid[0])
        lots = episode_uniform(np.array([self.which.seed]), runner.teams)[0]
        drawn = {name: numbers[0].copy() for name, numbers in runner.drawn.items()}
        policies = _who_played(self.asked, self.buffer.batch())
        names: dict[AgentID, tuple[str, ...]] = {}
        for agent in policies:
            called = action_names(runner.env, agent)
            if called:
                names[agent] = called
        return Tape(
            self.which, runner.env.name, self.buffer.batch(), self.asked, self.paid, self.late, returns, policies, lots, drawn,
            names, cut, self.frames, self.scenes,
        )  # fmt: skip


def _who_played(asked: Sequence[Sequence[AgentID]], batch: MultiAgentBatch) -> dict[AgentID, PolicyID]:
    found: dict[AgentID, PolicyID] = {}
    for step, names in enumerate(asked):
        for seat in np.flatnonzero(batch.present[step, 0]).tolist():
            found[names[seat]] = batch.policy_ids[batch.policy_index[step, 0, seat]]
    return found


def _other_episode(which: Which, how: str) -> DataError:
    return DataError(
        f"the recorded episode {which.number} is not the one of seed {which.seed}: {how}. Give the --seed of the rollout that "
        "recorded it, and the run that was played; episodes of training do not say their seeds."
    )


def names_of(runner: EnvRunner) -> list[AgentID]:
    """Who sits where now, or sat there last."""
    return [runner.env.agent_at(0, seat) for seat in range(len(runner.env.seat_names))]


def force(runner: EnvRunner, choices: Actions, k: int, seats: Bools, actions: Array) -> None:
    """Let agents of kind ``k`` on these seats ``[E, A_k]`` do this instead of what was decided, and remember that they did."""
    kind = runner.env.kinds[k]
    choices.actions[k][seats] = actions
    deciding = runner.policy_of[:, kind.seats]
    for index in np.unique(deciding[seats]).tolist():
        policy = runner.policies[index]
        if not policy.carry_size:
            continue
        mine = seats & (deciding == index)
        env_ids, columns = np.nonzero(mine)
        inputs = Inputs(runner.view.obs[k][mine], runner.view.legal[k][mine], columns)
        if policy.draws_lots:
            inputs.episode_uniform = runner.drawn[runner.policy_ids[index]][:, kind.seats][mine]
        width = policy.carry_size
        before, after = choices.carry[k][mine, :width], runner.carry[k][mine, :width]
        done = choices.actions[k][env_ids, columns]
        runner.carry[k][mine, :width] = policy.recarried(inputs, before, after, done)


# -- coming back -------------------------------------------------------------------------------------------------------


def return_to(runner: EnvRunner, tape: Tape, step: int) -> State:
    """Put a runner of one copy before this step of the episode; returns its state there.

    An ``EnvError`` where the env does not repeat itself.
    """
    batch = tape.batch
    rng = np.random.default_rng(0)  # nothing that it draws is used: actions and memories are those of the tape
    runner.begin(np.array([0]), np.array([tape.which.seed]))
    for now in range(step + 1):
        check_repeated(runner, batch, now)
        runner.policy_of[:] = batch.policy_index[now]
        if now == step:
            break
        choices = runner.decide(rng, explore=tape.which.explore)
        for k, actions in enumerate(batch.actions):
            choices.actions[k][:] = actions[now]
        runner.settle(runner.advance(choices))
    for k, column in enumerate(runner.carry):
        remembered = batch.carry[k][step]
        column[:] = 0.0
        column[..., : remembered.shape[-1]] = remembered
    runner.episodes[0].policies.update(tape.policies)
    for name, drawn in tape.drawn.items():
        runner.drawn[name][0] = drawn
    return runner.state_dict()


def check_repeated(runner: EnvRunner, batch: MultiAgentBatch, step: int) -> None:
    """Refuse an env that shows something else than it did before this step."""
    same = np.array_equal(runner.view.present, batch.present[step])
    for k, kind in enumerate(runner.env.kinds):
        here = batch.present[step][:, kind.seats]
        same = same and np.array_equal(runner.view.obs[k][here], batch.obs[k][step][here])
    if not same:
        raise EnvError(
            f"env {runner.env.name!r} does not repeat itself: with the same seed and the same actions agents see something "
            f"else in step {step}, so nobody can say what else would have happened. Let everything random in an episode "
            "follow from reset(seed=...), or --set fresh_env_per_episode=true if it only remembers something over resets."
        )
