"""Plays: asks the mapper who decides, asks the policies what to do, steps the worlds."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marl.data.actions import Columns
from marl.data.clock import Clock
from marl.data.episode import Episode
from marl.data.task import AgentID, Array, Bools, Floats, Ints, PolicyID
from marl.envs.batched import BatchedEnv, Frame, State
from marl.envs.vector.env_errors import guarded
from marl.envs.vector.checks import FrameCheck
from marl.errors import CheckpointError, EnvTimeoutError, PolicyError, SpaceMismatchError, UserError, let_through
from marl.mappers.mapper import Mapper, check_known
from marl.policies.policy import Decision, Inputs, Policy
from marl.rollout.config import RolloutConfig
from marl.rollout.episode_stats import Ledger
from marl.rollout.episode_callbacks import Watch


@dataclass(slots=True)
class Choices:
    """What everybody does in one step. Cells of absent agents mean nothing."""

    actions: list[Array]  # per kind [E, A_k, *action_shape]
    logp: Floats  # [E, A]
    carry: list[Floats]  # per kind [E, A_k, carry_size], before the decision


class Player:
    """``E`` running episodes and who plays in them. Collecting, evaluating and ``marl rollout`` all play through it."""

    def __init__(
        self, world: BatchedEnv, policies: Mapping[PolicyID, Policy], kinds: Mapping[PolicyID, int], mapper: Mapper,
        config: RolloutConfig, worker_index: int = 0, teams: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        self.world, self.mapper, self.config, self.worker_index = world, mapper, config, worker_index
        self.policy_ids = list(policies)
        self.policies = [policies[name] for name in self.policy_ids]
        self.kind_of_policy = [kinds[name] for name in self.policy_ids]
        self.ledger = Ledger(world, self.policy_ids)
        self._check = FrameCheck(world)
        self.clock = Clock()  # where the time goes; whoever renders between two steps ends it by lap("env_render")
        self.watchful = True  # looks at the numbers of every frame; a worker looks at those of a whole grid
        lanes, seats = world.num_envs, len(world.seat_names)
        self.policy_of = np.zeros((lanes, seats), np.int64)
        self.carry = [
            np.zeros((lanes, kind.size, size), np.float32)
            for kind, size in zip(
                world.kinds, carry_sizes(self.policies, self.kind_of_policy, len(world.kinds)), strict=True
            )
        ]
        self.teams = np.arange(seats) if teams is None else np.asarray(teams)  # seats of one team draw one lot
        self.lots = np.zeros((lanes, seats))
        self.drawn = {name: self.lots.copy() for name, p in policies.items() if p.draws_lots}  # what lots mean to it
        self._column = [np.tile(np.arange(kind.size), lanes) for kind in world.kinds]  # seat within the kind, per row
        self.alive = np.zeros((lanes, seats), bool)  # has been asked and has not ended
        self.t = np.zeros(lanes, np.int64)
        self.eps_id = np.zeros(lanes, np.int64)
        self.episodes_begun = 0
        self.episodes = [Episode(0, 0, worker_index, lane) for lane in range(lanes)]
        self.watch: Watch | None = None  # calls a user's hooks for these episodes
        self.view: Frame
        if mapper.fixed and world.fixed_seats:
            for seat, agent in enumerate(world.seat_names):
                self.policy_of[:, seat] = self._ask(self.episodes[0], seat, agent)

    # -- episodes --------------------------------------------------------------------------------------------------

    def begin(self, lanes: Ints, seeds: Ints) -> None:
        """Start new episodes in these lanes."""
        self.clock.lap("raw_obs_processing")
        with self.time_limit("reset"):
            self.view = guarded(lambda: self.world.reset(lanes, seeds), "reset", self._where)
        self.clock.lap("env_wait")
        self.t[lanes] = 0
        self._look(self.view)
        self.ledger.begin(lanes)
        self.alive[lanes] = self.view.present[lanes]
        # Unique over all workers of a run; only the order within a worker matters.
        first = self.worker_index * 2**40 + self.episodes_begun
        self.eps_id[lanes] = first + np.arange(len(lanes))
        self.episodes_begun += len(lanes)
        for column in self.carry:
            column[lanes] = 0.0
        if self.drawn:
            self.lots[lanes] = lots(seeds, self.teams)
        if not (self.mapper.fixed and self.world.fixed_seats):
            self._seat_everybody(lanes, seeds)
        elif self.watch is not None:
            for lane, seed in zip(lanes.tolist(), seeds.tolist(), strict=True):
                self._renew(lane, seed, dict(self.episodes[0].policies))
        self.ledger.seen[lanes] |= self.view.present[lanes]
        if self.watch is not None:
            self.watch.begin(lanes)

    def _renew(self, lane: int, seed: int, policies: dict[AgentID, PolicyID]) -> None:
        """An episode's own object, which tells more where hooks watch it."""
        if self.watch is not None:
            self.episodes[lane] = self.watch.new_episode(lane, seed)
            self.episodes[lane].policies = policies
        else:
            self.episodes[lane] = Episode(int(self.eps_id[lane]), seed, self.worker_index, lane, policies)

    def _seat_everybody(self, lanes: Ints, seeds: Ints) -> None:
        for lane, seed in zip(lanes.tolist(), seeds.tolist(), strict=True):
            self._renew(lane, seed, {})
            if self.world.fixed_seats:
                for seat, agent in enumerate(self.world.seat_names):
                    self.policy_of[lane, seat] = self._ask(self.episodes[lane], seat, agent)
        for lane, seat in self.view.born:
            self.ledger.hand_over(lane, seat, 0)
        self._welcome(self.view.born)

    def _welcome(self, born: Sequence[tuple[int, int]]) -> None:
        """New agents took seats: ask who plays them (again the same policy if they come back in the same episode)."""
        for lane, seat in born:
            agent, episode = self.world.agent_at(lane, seat), self.episodes[lane]
            self.policy_of[lane, seat] = self._ask(episode, seat, agent)
            for kind, column in zip(self.world.kinds, self.carry, strict=True):
                if kind.seats.start <= seat < kind.seats.stop:
                    column[lane, seat - kind.first_seat] = 0.0

    def _ask(self, episode: Episode, seat: int, agent: str) -> int:
        policy = episode.policies.get(agent)
        if policy is None:
            policy = self.mapper(agent, episode)
            check_known(self.mapper, agent, policy, self.policy_ids)
            episode.policies[agent] = policy
        index = self.policy_ids.index(policy)
        kind = self.world.kinds[self.kind_of_policy[index]]
        if not kind.seats.start <= seat < kind.seats.stop:
            raise SpaceMismatchError(
                f"policy {policy!r} plays agents like {kind.agents[0]!r} ({kind.observation_space}, "
                f"{kind.action_space}), but {self.mapper.name!r} sent it agent {agent!r}, whose spaces differ. Give "
                f"{agent!r} a policy of its own."
            )
        return index

    # -- one step --------------------------------------------------------------------------------------------------

    def decide(self, rng: np.random.Generator, *, explore: bool) -> Choices:
        """One forward pass per policy over all agents that it decides for now."""
        view, world = self.view, self.world
        actions: list[Array] = []
        logp = np.zeros(view.present.shape, np.float32)
        before = [column.copy() if column.shape[2] else column for column in self.carry]
        if self.drawn:
            self._draw_lots()
        for k, kind in enumerate(world.kinds):
            flat = np.zeros((world.num_envs * kind.size, *kind.action_shape), kind.action_dtype)
            kind_logp = np.zeros(len(flat), np.float32)
            obs = view.obs[k].reshape(len(flat), kind.obs_width)
            legal = view.legal[k].reshape(len(flat), kind.legal_width)
            carry = self.carry[k].reshape(len(flat), self.carry[k].shape[2])
            for rows, index in self._deciding(k, view.present[:, kind.seats]):
                policy = self.policies[index]
                inputs = Inputs(obs[rows].copy(), legal[rows], self._column[k][rows])
                if policy.draws_lots:
                    inputs.lots = self.drawn[self.policy_ids[index]][:, kind.seats].reshape(-1)[rows]
                self.clock.lap("raw_obs_processing")
                decision = self._act(policy, inputs, carry[rows, : policy.carry_size], rng, explore)
                self.clock.lap("inference")
                flat[rows], kind_logp[rows] = self._stored(policy, decision.actions), decision.logp
                if policy.carry_size:
                    carry[rows, : policy.carry_size] = decision.carry
            actions.append(flat.reshape(world.num_envs, kind.size, *kind.action_shape))
            logp[:, kind.seats] = kind_logp.reshape(world.num_envs, kind.size)
        return Choices(actions, logp, before)

    def _act(self, policy: Policy, inputs: Inputs, carry: Floats, rng: np.random.Generator, explore: bool) -> Decision:
        try:
            return policy.act(inputs, carry, rng, explore=explore)
        except UserError:
            raise
        except BaseException as error:
            let_through(error)
            self._check.look(self.view, self._where_in)  # a NaN in the observations explains it better
            name = self.policy_ids[self.policies.index(policy)]
            raise PolicyError(
                f"policy {name!r} failed to act on {len(inputs)} observation(s) of {self.world.name!r}: "
                f"{type(error).__name__}: {error}. Check that observations lie in their space, "
                "and the policy's own code if it is yours."
            ) from error

    def _look(self, frame: Frame) -> None:
        (self._check.look if self.watchful else self._check.look_at_shapes)(frame, self._where_in)

    def _where(self) -> str:
        """Where a call that is under way may have failed."""
        if self.world.num_envs == 1:
            return f"env {self.world.name!r}, worker {self.worker_index}, copy 0, step {self.t[0] + 1}"
        steps = f"{self.t.min() + 1} to {self.t.max() + 1}"
        return f"env {self.world.name!r}, worker {self.worker_index}, {self.world.num_envs} copies in step {steps}"

    def _where_in(self, lane: int) -> str:
        return f"env {self.world.name!r}, worker {self.worker_index}, copy {lane}, step {self.t[lane]}"

    def _stored(self, policy: Policy, actions: Array) -> Array:
        return from_env(actions, policy.kind.columns, self.config) if policy.world_units else actions

    def _draw_lots(self) -> None:
        """Episodes begin: what their lots mean is settled now for all agents, whatever weights are sent meanwhile."""
        first = np.flatnonzero(self.t == 0)
        if first.size:
            for name, drawn in self.drawn.items():
                drawn[first] = self.policies[self.policy_ids.index(name)].draw(self.lots[first])

    def _deciding(self, k: int, present: Bools) -> Iterator[tuple[Ints | slice, int]]:
        """Rows (lane * seats + seat) of each policy of this kind; a slice, which copies nothing, where it decides for all."""
        seats = self.world.kinds[k].seats
        for index, kind_of in enumerate(self.kind_of_policy):
            if kind_of == k:
                mine = present & (self.policy_of[:, seats] == index)
                rows = np.flatnonzero(mine)
                if rows.size:
                    yield (slice(None) if rows.size == mine.size else rows), index

    def advance(self, choices: Choices) -> Frame:
        """Step all lanes; the frame shows how the step ended, before any episode is started anew."""
        pairs = zip(self.world.kinds, choices.actions, strict=True)
        actions = [to_env(column, kind.columns, self.config) for kind, column in pairs]
        if self.watch is not None:
            self.watch.act(actions, self.view.present)
        self.clock.lap("action_processing")
        with self.time_limit("step"):
            frame: Frame = guarded(lambda: self.world.step(actions), "step", self._where)
        self.clock.lap("env_wait")
        self.t += 1
        self._look(frame)
        _terminated_wins(frame)
        if self.config.horizon is not None:
            self._cut_at_horizon(frame, self.config.horizon)
        for lane, seat in frame.born:
            self.ledger.hand_over(lane, seat, int(self.policy_of[lane, seat]))
        self.ledger.pay(frame, self.episodes)
        if self.config.clip_rewards:
            frame.rewards = clipped(frame.rewards, self.config.clip_rewards)
        self._remember_rewards(frame)
        self.view = frame
        return frame

    def settle(self, frame: Frame) -> Ints:
        """After the step was recorded: seat new agents, close the books of ended episodes. Gives the lanes to start anew."""
        self.alive = (self.alive | frame.present) & ~(frame.terminated | frame.truncated)
        self._forget_ended(frame)
        self._welcome(frame.born)
        self.ledger.seen |= frame.present | frame.terminated | frame.truncated
        over = np.flatnonzero(frame.over)
        watched = self.watch.settle(over) if self.watch is not None else []
        if over.size:
            self.ledger.end(over, self.policy_of, watched)
        return over

    def _remember_rewards(self, frame: Frame) -> None:
        """Policies that look at their last reward: add up what was paid since the decision."""
        for index, policy in enumerate(self.policies):
            if policy.remembers_reward:
                k = self.kind_of_policy[index]
                seats = self.world.kinds[k].seats
                mine = (self.policy_of[:, seats] == index) & self.alive[:, seats]
                self.carry[k][:, :, policy.carry_size - 1] += np.where(mine, frame.rewards[:, seats], 0.0)

    def _forget_ended(self, frame: Frame) -> None:
        """An agent that ended and comes back on the same seat starts without memory."""
        for kind, column in zip(self.world.kinds, self.carry, strict=True):
            if column.shape[2]:
                column[(frame.terminated | frame.truncated)[:, kind.seats]] = 0.0

    def _cut_at_horizon(self, frame: Frame, horizon: int) -> None:
        lanes = np.flatnonzero((self.t >= horizon) & ~frame.over)
        if not lanes.size:
            return
        alive = self.alive[lanes] & ~(frame.terminated[lanes] | frame.truncated[lanes])
        # The world may use one array for several of these, so they are not written into.
        frame.truncated, frame.blind = frame.truncated.copy(), frame.blind.copy()
        frame.present, frame.over = frame.present.copy(), frame.over.copy()
        frame.truncated[lanes] |= alive
        frame.blind[lanes] |= alive & ~frame.present[lanes]  # between two decisions: no up-to-date observation
        frame.present[lanes] = False
        frame.over[lanes] = True

    @contextmanager
    def time_limit(self, verb: str) -> Iterator[None]:
        """Within this block the world has ``env_timeout_s`` seconds to answer."""
        seconds = self.config.env_timeout_s
        if seconds is None or threading.current_thread() is not threading.main_thread():
            yield
            return

        def ring(*_: object) -> None:
            raise EnvTimeoutError(
                f"env {self.world.name!r}, worker {self.worker_index}: {verb} took longer than env_timeout_s = "
                f"{seconds} s. Raise env_timeout_s, or find out where the world hangs."
            )

        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        return {
            "world": guarded(self.world.get_state, "get_state", self._where),
            "told": [dict(tasks) for tasks in self.world.told],
            "ledger": self.ledger.state_dict(),
            "policy_of": self.policy_of.copy(),
            "alive": self.alive.copy(),
            "carry": [column.copy() for column in self.carry],
            "lots": self.lots.copy(),
            "drawn": {name: drawn.copy() for name, drawn in self.drawn.items()},
            "t": self.t.copy(),
            "eps_id": self.eps_id.copy(),
            "episodes_begun": self.episodes_begun,
            "episodes": [[e.episode_id, e.seed, list(e.policies.items()), _rng_state(e)] for e in self.episodes],
            **({"watch": self.watch.state_dict()} if self.watch is not None else {}),
        }

    def load_state_dict(self, state: State) -> Ints:
        """Go on where the state was taken. Gives lanes whose episode could not be brought back."""
        self.world.recall(state.get("told", ()))
        self.view = guarded(lambda: self.world.set_state(state["world"]), "set_state", self._where)
        self.ledger.load_state_dict(state["ledger"])
        self.policy_of[:], self.t[:], self.eps_id[:] = state["policy_of"], state["t"], state["eps_id"]
        self.alive[:] = state["alive"]
        self.lots[:] = state["lots"]
        if missing := sorted(self.drawn.keys() - state.get("drawn", {}).keys()):
            raise CheckpointError(
                f"the checkpoint does not say which members of {', '.join(missing)} were playing; it was written by an older "
                "version. Its policies can still be played, measured and loaded; to go on training, start a new run."
            )
        for name, drawn in self.drawn.items():
            drawn[:] = state["drawn"][name]
        for column, saved in zip(self.carry, state["carry"], strict=True):
            column[:] = saved
        self.episodes_begun = state["episodes_begun"]
        for lane, (episode_id, seed, policies, rng) in enumerate(state["episodes"]):
            self._renew(lane, seed, dict(policies))
            if self.watch is None:
                self.episodes[lane].episode_id = episode_id
            if rng is not None:
                self.episodes[lane].rng.bit_generator.state = rng
        if self.watch is not None:
            self.watch.load_state_dict(state.get("watch"))
        return np.flatnonzero(self.view.over)


def lots(seeds: Ints, teams: Ints) -> NDArray[np.float64]:
    """A number from 0 to 1 for each episode and seat ``[E, A]``, by the episode's seed and the seat's team alone."""
    mixed = seeds.astype(np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15) + (
        teams.astype(np.uint64) + np.uint64(1)
    ) * np.uint64(0xD1B54A32D192ED03)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # SplitMix64's finaliser
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    found: NDArray[np.float64] = (mixed ^ (mixed >> np.uint64(31))).astype(np.float64) / 2.0**64
    return found


def clipped(rewards: Floats, limit: float) -> Floats:
    """What learners are paid (``clip_rewards``): True, the sign; a number, cut to plus or minus this much."""
    return np.sign(rewards) if limit is True else np.clip(rewards, -limit, limit)


def _terminated_wins(frame: Frame) -> None:
    """One rule for all: an agent that a world calls both terminated and truncated (or blind) is terminated."""
    if (frame.terminated & (frame.truncated | frame.blind)).any():
        # The world may use these arrays again, so they are not written into.
        frame.truncated = frame.truncated & ~frame.terminated
        frame.blind = frame.blind & ~frame.terminated


def carry_sizes(policies: Sequence[Policy], kind_of_policy: Sequence[int], kinds: int) -> list[int]:
    """Numbers to keep per seat of each kind: those of the policy that remembers most."""
    sizes = [0] * kinds
    for policy, k in zip(policies, kind_of_policy, strict=True):
        sizes[k] = max(sizes[k], policy.carry_size)
    return sizes


def _rng_state(episode: Episode) -> State:
    return episode.rng.bit_generator.state if "rng" in vars(episode) else None


def from_env(actions: Array, columns: Columns, config: RolloutConfig) -> Array:
    """The inverse of ``to_env`` within the bounds, for policies that speak the world's units."""
    return columns.squeezed(actions) if columns.numbers and config.normalize_actions else actions


def to_env(actions: Array, columns: Columns, config: RolloutConfig) -> Array:
    """Stored actions as the world takes them: coordinates stretched or cut to the bounds of their Box."""
    if not columns.numbers:
        return actions
    if config.normalize_actions:
        return columns.stretched(actions)
    return columns.cut(actions) if config.clip_actions else actions
