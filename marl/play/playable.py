"""A run that is opened to be played: its policies, with some of them taken from elsewhere, and envs for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from marl.algos.learner import Learner
from marl.algos.plan import build_learner
from marl.data.task import AgentID, PolicyID
from marl.envs.batched import BatchedEnv
from marl.envs.registry import make_batched_env
from marl.errors import ConfigError, SpaceMismatchError
from marl.mappers.mapper import UserFunction
from marl.play.changes import NOTHING, Changes
from marl.play.export import exported_folders
from marl.play.policy_sources import Cast, Recast, cast, find_policy
from marl.policies.nfsp import NfspPolicy
from marl.policies.policy import Policy
from marl.policies.value import ValuePolicy
from marl.policies.value_table import ValueTable
from marl.rollout.env_runner import EnvRunner
from marl.rollout.paired import PairedRunner
from marl.runs.checkpoint import has_part, read_part
from marl.runs.restoring import put_to_use
from marl.runs.saved import SavedRun
from marl.scenario.resolve import Setup
from marl.scenario.routing import candidates, example_agent


@dataclass(frozen=True)
class Playable:
    """A run, the policies that it has learned, and who plays in it."""

    folder: Path  # the checkpoint, or the export
    trusted: Callable[[], AbstractContextManager[None]]  # around all that follows names in the files
    setup: Setup
    learned: Mapping[PolicyID, Policy]  # the run's own, also those that others stand in for
    cast: Cast
    replaced: frozenset[str]  # names of policies and agents that are played from elsewhere

    @classmethod
    def open(cls, path: Path, allow: frozenset[str], changes: Changes = NOTHING) -> Playable:
        """Names in its files may only point to built-in or allowed modules."""
        remedy = "Name them again: --env package.module:Class, --set multiagent.policy_mapping_fn=..."
        run = SavedRun.open(path, allow, changes.words, remedy=remedy)
        # The user's changes come last: they are what this rollout is about.
        setup = run.resolve(changes.applied(run.to_play()))
        own = [name for name in setup.policies if name not in changes.policies]
        policies = run.policies(setup, own, "Say where it comes from: --policy {name}=PATH.")
        with run.trusted():
            playing = cast(setup, policies, changes.policies)
            _check_all_play(playing, setup, changes.policies)
        return cls(run.folder, run.trusted, setup, policies, playing, frozenset(changes.policies))

    def runner(
        self,
        num_envs: int = 1,
        render_mode: str | None = None,
        with_state: bool = False,
    ) -> EnvRunner:
        """Copies of the env and who plays in them."""
        spec = self.setup.rollout
        env = self._env(num_envs, render_mode, with_state)
        return EnvRunner(env, self.cast.policies, self.cast.kinds, self.cast.mapper, spec.config, teams=spec.teams)

    def paired_runner(self, num_envs: int) -> PairedRunner:
        """The same with common random numbers."""
        spec, env = self.setup.rollout, self._env(num_envs)
        return PairedRunner(env, self.cast.policies, self.cast.kinds, self.cast.mapper, spec.config, teams=spec.teams)

    def _env(self, num_envs: int, render_mode: str | None = None, with_state: bool = False) -> BatchedEnv:
        spec = self.setup.rollout
        with self.trusted():
            return make_batched_env(
                spec.env, num_envs, spec.env_config, fresh_env_per_episode=spec.config.fresh_env_per_episode,
                with_state=with_state, wrappers=spec.wrappers, render_mode=render_mode,
            )  # fmt: skip

    def other_policy(self, source: str, kind: int, name: PolicyID) -> Policy:
        """A policy of this run by its id, or one from elsewhere (a run, a checkpoint, an export, ``random``).

        ``name`` is the policy that it stands in for: of a run with several the one of this name is taken.
        """
        mine = self.setup.policies.get(source)
        if mine is not None and mine.kind != kind:
            agents = self.setup.task.kinds[kind].agents
            raise SpaceMismatchError(
                f"--policy {source}: this policy of the run plays agents of other spaces than {agents[0]!r}. Take one of "
                "agents with equal spaces."
            )
        if mine is not None:
            return self.cast.policies[source]
        with self.trusted():
            return find_policy(name, source, kind, self.setup)

    @property
    def keeps_learners(self) -> bool:
        """Whether critics may be there: exports have none, and of a run's checkpoints only some."""
        return not exported_folders(self.folder) and has_part(self.folder, "learners")

    @cached_property
    def learners(self) -> Mapping[PolicyID, Learner]:
        """Those with critics, as the checkpoint has them, by the policies that they train.

        None of a checkpoint that only keeps policies, as all but the newest ones do.
        """
        folder = self.folder
        if not self.keeps_learners:
            return {}
        states = read_part(folder, "learners")
        found: dict[PolicyID, Learner] = {}
        setup = self.setup
        with put_to_use(folder, "learners"), self.trusted():
            for i, (plan, state) in enumerate(zip(setup.plans, states, strict=True)):
                # Learners of action values have no critic besides the policy, and may hold a large replay.
                if all(isinstance(self.learned[name], ValuePolicy | NfspPolicy | ValueTable) for name in plan.policies):
                    continue
                learner = build_learner(plan, setup.roles, self.learned, setup.task, setup.scenario.seed + 7919 * i)
                learner.load_state_dict(state)
                found.update(dict.fromkeys(plan.policies, learner))
        return found

    def gamma(self, policy: PolicyID) -> float:
        """The discount of the policy's learner; 1 for policies that do not learn, and for those from elsewhere."""
        role = self.setup.roles.get(policy)
        if role is None or policy in self.replaced:
            return 1.0
        return float(getattr(role.config, "gamma", 1.0))


def _check_all_play(playing: Cast, setup: Setup, sources: Mapping[str, str]) -> None:
    """Refuse a ``--policy`` that would play nobody, because others take all its agents or the mapping never chooses it."""
    mapper = playing.mapper
    if not isinstance(mapper, Recast):
        mapper = Recast({}, mapper)
    for name, source in sources.items():
        takers = _takers(name, mapper, setup.task.seat_names)
        if name in takers:
            continue
        if takers:
            others = [f"--policy {taker}={sources[taker]}" for taker in takers]
            why = f"{', '.join(others)} takes everybody that it would play"
        elif name in mapper.patterns or isinstance(mapper.before, UserFunction):
            continue  # agents that come later may have such names, and a function may choose anybody
        else:
            who: set[PolicyID] = set()
            for seat in setup.task.seat_names:
                who.update(candidates(mapper.before, example_agent(seat)))
            why = f"the mapping of the run never chooses it, but {', '.join(sorted(who))}"
        raise ConfigError(f"--policy {name}={source} plays nobody: {why}. Drop it, or name who plays.")


def _takers(name: str, mapper: Recast, seats: Sequence[str]) -> list[PolicyID]:
    """Who plays the agents that a name means; the name itself where no pattern takes them away from it."""
    found: dict[PolicyID, None] = {}
    for seat in seats:
        for agent in _meant(name, seat, mapper):
            found[mapper.own(agent) or name] = None
    return list(found)


def _meant(name: str, seat: str, mapper: Recast) -> list[AgentID]:
    """Agents on a seat that a name means: by its pattern, or because the run's mapping gives them to the policy.

    Of a seat such as ``car_*[0]`` some agents are tried.
    """
    agents = [seat]
    if "*" in seat:
        stem = seat.split("[")[0]
        agents = [stem.replace("*", "0"), stem.replace("*", "12345")]
        if fnmatchcase(name, stem):
            agents.insert(0, name)
    if name in mapper.patterns:
        return [agent for agent in agents if fnmatchcase(agent, name)]
    if name in candidates(mapper.before, example_agent(seat)):
        return agents
    return []
