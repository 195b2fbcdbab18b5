"""Plays: asks the mapper who decides, asks the policies what to do, steps the envs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marl.data.action_units import to_env
from marl.data.clock import Clock
from marl.data.episode import Episode
from marl.data.task import AgentID, Floats, Ints, PolicyID
from marl.envs.batched import BatchedEnv, State, StepOutput
from marl.envs.vector.checks import EnvCheck
from marl.envs.vector.env_errors import env_failure, guarded, time_limit
from marl.errors import CheckpointError, EnvError, SpaceMismatchError
from marl.mappers.mapper import Mapper, check_known
from marl.policies.policy import Policy
from marl.rollout.cells import Seating, any_of
from marl.rollout.config import RolloutConfig, clipped
from marl.rollout.deciding import Actions, Deciding
from marl.rollout.episode_callbacks import EpisodeCallbacks
from marl.rollout.episode_stats import EpisodeStatsRecorder
from marl.rollout.turns import Stacks


class EnvRunner(Deciding):
    """``E`` running episodes and who plays in them. Collecting, evaluating and ``marl rollout`` all play through it."""

    def __init__(
        self, env: BatchedEnv, policies: Mapping[PolicyID, Policy], kinds: Mapping[PolicyID, int], mapper: Mapper,
        config: RolloutConfig, worker_index: int = 0, teams: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        self.env, self.mapper, self.config, self.worker_index = env, mapper, config, worker_index
        self.policy_ids, self.policies = list(policies), list(policies.values())
        self.kind_of_policy = [kinds[name] for name in self.policy_ids]
        self.stats = EpisodeStatsRecorder(env, self.policy_ids)
        self.check = EnvCheck(env, worker_index)
        self.clock = Clock()  # where the time goes; whoever renders between two steps ends it by lap("env_render")
        copies, seats = env.num_envs, len(env.seat_names)
        self.policy_of = np.zeros((copies, seats), np.int64)
        self.seating, self.stacks = Seating(), Stacks(self.policies)
        self._prepare_kinds()
        self.teams = np.arange(seats) if teams is None else np.asarray(teams)  # seats of one team draw one lot
        self.episode_uniform = np.zeros((copies, seats))
        self.drawn = {name: np.zeros((copies, seats)) for name, p in policies.items() if p.draws_lots}
        self.alive = np.zeros((copies, seats), bool)  # has been asked and has not ended
        self.t = np.zeros(copies, np.int64)
        self.eps_id = np.zeros(copies, np.int64)
        self.episodes_begun = 0
        self.soft_horizon = False  # whether a copy that is cut at the horizon goes on from there instead of a reset
        self._goes_on = np.zeros(copies, bool)
        self.episodes = [Episode(0, 0, worker_index, env_id) for env_id in range(copies)]
        self.callbacks: EpisodeCallbacks | None = None  # calls a user's hooks for these episodes
        self.view: StepOutput
        self.seated_for_ever = mapper.fixed and env.fixed_seats
        if self.seated_for_ever:
            for seat, agent in enumerate(env.seat_names):
                self.policy_of[:, seat] = self._ask(self.episodes[0], seat, agent)

    def _prepare_kinds(self) -> None:
        """Who plays which kind of agents, and what is remembered for them."""
        env, copies = self.env, self.env.num_envs
        self.carry: list[Floats] = []
        self._column: list[Ints] = []  # [E, A_k]: number of the seat within its kind
        self._policies_of_kind: list[list[int]] = []
        sizes = carry_sizes(self.policies, self.kind_of_policy, len(env.kinds))
        for k, kind in enumerate(env.kinds):
            self.carry.append(np.zeros((copies, kind.size, sizes[k]), np.float32))
            self._column.append(np.tile(np.arange(kind.size), (copies, 1)))
            self._policies_of_kind.append([])
        self._remembering: list[int] = []  # policies that look at their last reward
        for index, policy in enumerate(self.policies):
            self._policies_of_kind[self.kind_of_policy[index]].append(index)
            if policy.remembers_reward:
                self._remembering.append(index)
        # What only some games and policies need is not even looked at in the others: these say which this is.
        self._has_memory = any(column.size for column in self.carry)
        self._has_coordinates = any(kind.columns.numbers for kind in env.kinds)

    # -- episodes --------------------------------------------------------------------------------------------------

    def begin(self, env_ids: Ints, seeds: Ints) -> None:
        """Start new episodes in these copies of the env."""
        self.clock.lap("raw_obs_processing")
        fresh = ~self._goes_on[env_ids]
        self._goes_on[env_ids] = False
        self.view = self._call_env("reset", env_ids[fresh], seeds[fresh])
        self.clock.lap("env_wait")
        self.t[env_ids] = 0
        self.check.look(self.view, self._where_in)
        present = self.view.present[env_ids]
        self.stats.begin(env_ids)
        self.alive[env_ids] = present
        # Unique over all workers of a run; only the order within a worker matters.
        self.eps_id[env_ids] = self.worker_index * 2**40 + self.episodes_begun + np.arange(len(env_ids))
        self.episodes_begun += len(env_ids)
        if self._has_memory:
            for column in self.carry:
                column[env_ids] = 0.0
        if self.drawn:
            self.episode_uniform[env_ids] = episode_uniform(seeds, self.teams)
        if not self.seated_for_ever:
            self._seat_everybody(env_ids, seeds)
        elif self.callbacks is not None:
            for env_id, seed in zip(env_ids.tolist(), seeds.tolist(), strict=True):
                self._renew(env_id, seed, dict(self.episodes[0].policies))
        self.stats.seen[env_ids] |= present
        if self.callbacks is not None:
            self.callbacks.begin(env_ids)

    def _renew(self, env_id: int, seed: int, policies: dict[AgentID, PolicyID]) -> None:
        """An episode's own object, which tells more where hooks watch it."""
        if self.callbacks is not None:
            self.episodes[env_id] = self.callbacks.new_episode(env_id, seed)
            self.episodes[env_id].policies = policies
        else:
            self.episodes[env_id] = Episode(int(self.eps_id[env_id]), seed, self.worker_index, env_id, policies)

    def _seat_everybody(self, env_ids: Ints, seeds: Ints) -> None:
        for env_id, seed in zip(env_ids.tolist(), seeds.tolist(), strict=True):
            self._renew(env_id, seed, {})
            if self.env.fixed_seats:
                for seat, agent in enumerate(self.env.seat_names):
                    self.policy_of[env_id, seat] = self._ask(self.episodes[env_id], seat, agent)
        for env_id, seat in self.view.born:
            self.stats.hand_over(env_id, seat, 0)
        self._welcome(self.view.born)

    def _welcome(self, born: Sequence[tuple[int, int]]) -> None:
        """New agents took seats: ask who plays them (again the same policy if they come back in the same episode)."""
        for env_id, seat in born:
            agent, episode = self.env.agent_at(env_id, seat), self.episodes[env_id]
            self.policy_of[env_id, seat] = self._ask(episode, seat, agent)
            for kind, column in zip(self.env.kinds, self.carry, strict=True):
                if kind.seats.start <= seat < kind.seats.stop:
                    column[env_id, seat - kind.first_seat] = 0.0

    def _ask(self, episode: Episode, seat: int, agent: str) -> int:
        policy = episode.policies.get(agent)
        if policy is None:
            policy = self.mapper(agent, episode)
            check_known(self.mapper, agent, policy, self.policy_ids)
            episode.policies[agent] = policy
        index = self.policy_ids.index(policy)
        kind = self.env.kinds[self.kind_of_policy[index]]
        if not kind.seats.start <= seat < kind.seats.stop:
            raise SpaceMismatchError(
                f"policy {policy!r} plays agents like {kind.agents[0]!r} ({kind.observation_space}, "
                f"{kind.action_space}), but {self.mapper.name!r} sent it agent {agent!r}, whose spaces differ. Give "
                f"{agent!r} a policy of its own."
            )
        return index

    # -- one step --------------------------------------------------------------------------------------------------

    def _call_env(self, verb: str, *arguments: Any) -> StepOutput:
        """Run the env's own code: it has ``env_timeout_s`` seconds, and what goes wrong there tells where."""
        method: Callable[..., StepOutput] = getattr(self.env, verb)
        try:
            if self.config.env_timeout_s is None:
                return method(*arguments)
            with self.time_limit(verb):
                return method(*arguments)
        except EnvError:
            raise
        except BaseException as error:
            raise env_failure(error, verb, self._where) from error

    def _where(self) -> str:
        """Where a call that is under way may have failed."""
        if self.env.num_envs == 1:
            return f"env {self.env.name!r}, worker {self.worker_index}, copy 0, step {self.t[0] + 1}"
        steps = f"{self.t.min() + 1} to {self.t.max() + 1}"
        return f"env {self.env.name!r}, worker {self.worker_index}, {self.env.num_envs} copies in step {steps}"

    def _where_in(self, env_id: int) -> str:
        return f"env {self.env.name!r}, worker {self.worker_index}, copy {env_id}, step {self.t[env_id]}"

    def advance(self, choices: Actions) -> StepOutput:
        """Step all copies; the output shows how the step ended, before any episode is started anew."""
        actions = choices.actions
        if self._has_coordinates:
            pairs = zip(self.env.kinds, actions, strict=True)
            actions = [to_env(column, kind.columns, self.config) for kind, column in pairs]
        if self.callbacks is not None:
            self.callbacks.act(actions, self.view.present)
        self.clock.lap("action_processing")
        output = self._call_env("step", actions)
        self.clock.lap("env_wait")
        self.t += 1
        self.check.look(output, self._where_in)
        if any_of(output.terminated):  # seldom: the step itself does not end lives
            _let_terminated_win(output)
        if self.config.horizon is not None:
            self._cut_at_horizon(output, self.config.horizon)
        for env_id, seat in output.born:
            self.stats.hand_over(env_id, seat, int(self.policy_of[env_id, seat]))
        self.stats.pay(output, self.episodes)
        if self.config.clip_rewards:
            output.rewards = clipped(output.rewards, self.config.clip_rewards)
        for index in self._remembering:
            self._remember_reward(output, index)
        self.view = output
        return output

    def settle(self, output: StepOutput) -> Ints:
        """After the step was recorded: seat new agents, close the books of ended episodes. Returns copies to start anew."""
        ended = output.terminated | output.truncated
        seen = output.present | ended
        # Who is asked or has ended has been seen; who has ended is not alive any more.
        self.alive = (self.alive | seen) & ~ended
        if self._has_memory:
            for kind, column in zip(self.env.kinds, self.carry, strict=True):
                column[ended[:, kind.seats]] = 0.0  # an agent that comes back on the same seat starts without memory
        if output.born:
            self._welcome(output.born)
        self.stats.seen |= seen
        over = np.flatnonzero(output.over)
        watched = self.callbacks.settle(over) if self.callbacks is not None else []
        if over.size:
            self.stats.end(over, self.policy_of, watched)
        return over

    def _remember_reward(self, output: StepOutput, index: int) -> None:
        """A policy that looks at its last reward: add up what was paid since the decision."""
        k = self.kind_of_policy[index]
        seats = self.env.kinds[k].seats
        mine = (self.policy_of[:, seats] == index) & self.alive[:, seats]
        self.carry[k][:, :, self.policies[index].carry_size - 1] += np.where(mine, output.rewards[:, seats], 0.0)

    def _cut_at_horizon(self, output: StepOutput, horizon: int) -> None:
        env_ids = np.flatnonzero((self.t >= horizon) & ~output.over)
        if not env_ids.size:
            return
        alive = self.alive[env_ids] & ~(output.terminated[env_ids] | output.truncated[env_ids])
        # The env may use one array for several of these, so they are not written into.
        output.truncated, output.blind = output.truncated.copy(), output.blind.copy()
        output.present, output.over = output.present.copy(), output.over.copy()
        output.truncated[env_ids] |= alive
        output.blind[env_ids] |= alive & ~output.present[env_ids]  # between two decisions: no up-to-date observation
        output.present[env_ids] = False
        output.over[env_ids] = True
        self._goes_on[env_ids] = self.soft_horizon

    def time_limit(self, verb: str) -> AbstractContextManager[None]:
        """Within this block the env has ``env_timeout_s`` seconds to answer."""
        return time_limit(self.config.env_timeout_s, f"env {self.env.name!r}, worker {self.worker_index}: {verb}")

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        return {
            "world": guarded(self.env.get_state, "get_state", self._where),
            "told": [dict(tasks) for tasks in self.env.told],
            "ledger": self.stats.state_dict(),
            "policy_of": self.policy_of.copy(),
            "alive": self.alive.copy(),
            "carry": [column.copy() for column in self.carry],
            "lots": self.episode_uniform.copy(),
            "drawn": {name: drawn.copy() for name, drawn in self.drawn.items()},
            "t": self.t.copy(),
            "eps_id": self.eps_id.copy(),
            "episodes_begun": self.episodes_begun,
            "episodes": [[e.episode_id, e.seed, list(e.policies.items()), _rng_state(e)] for e in self.episodes],
            **({"watch": self.callbacks.state_dict()} if self.callbacks is not None else {}),
        }

    def load_state_dict(self, state: State) -> Ints:
        """Go on where the state was taken. Returns the copies whose episode could not be brought back."""
        self.env.restore_tasks(state.get("told", ()))
        self.view = guarded(lambda: self.env.set_state(state["world"]), "set_state", self._where)
        self.stats.load_state_dict(state["ledger"])
        self.policy_of[:], self.t[:], self.eps_id[:] = state["policy_of"], state["t"], state["eps_id"]
        self.alive[:] = state["alive"]
        self.episode_uniform[:] = state["lots"]
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
        for env_id, (episode_id, seed, policies, rng) in enumerate(state["episodes"]):
            self._renew(env_id, seed, dict(policies))
            if self.callbacks is None:
                self.episodes[env_id].episode_id = episode_id
            if rng is not None:
                self.episodes[env_id].rng.bit_generator.state = rng
        if self.callbacks is not None:
            self.callbacks.load_state_dict(state.get("watch"))
        return np.flatnonzero(self.view.over)


def episode_uniform(seeds: Ints, teams: Ints) -> NDArray[np.float64]:
    """A number from 0 to 1 for each episode and seat ``[E, A]``, by the episode's seed and the seat's team alone."""
    mixed = seeds.astype(np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15) + (
        teams.astype(np.uint64) + np.uint64(1)
    ) * np.uint64(0xD1B54A32D192ED03)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # SplitMix64's finaliser
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    found: NDArray[np.float64] = (mixed ^ (mixed >> np.uint64(31))).astype(np.float64) / 2.0**64
    return found


def _let_terminated_win(output: StepOutput) -> None:
    """One rule for all: an agent that an env calls both terminated and truncated (or blind) is terminated."""
    if not any_of(output.terminated & (output.truncated | output.blind)):
        return
    # The env may use these arrays again, so they are not written into.
    output.truncated = output.truncated & ~output.terminated
    output.blind = output.blind & ~output.terminated


def carry_sizes(policies: Sequence[Policy], kind_of_policy: Sequence[int], kinds: int) -> list[int]:
    """Numbers to keep per seat of each kind: those of the policy that remembers most."""
    sizes = [0] * kinds
    for policy, k in zip(policies, kind_of_policy, strict=True):
        sizes[k] = max(sizes[k], policy.carry_size)
    return sizes


def _rng_state(episode: Episode) -> State:
    return episode.rng.bit_generator.state if "rng" in vars(episode) else None
