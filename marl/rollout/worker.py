"""Collects experience: plays its copies of the env and fills grids. A plain class; Ray knows nothing of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import numpy as np
import torch

from marl.callbacks.callbacks import make_hooks
from marl.data.episode import EpisodeStats
from marl.data.task import Ints, PolicyID
from marl.envs.base import EnvContext
from marl.envs.batched import BatchedEnv, State
from marl.envs.registry import make_batched_env
from marl.envs.tasks import TaskMemory, same_tasks
from marl.envs.vector.env_errors import close_all
from marl.log import set_log_level
from marl.memory import keep_freed_memory
from marl.policies.build import build_policies
from marl.policies.policy import Policy
from marl.rollout.config import EnvRecipe, RolloutSpec
from marl.rollout.env_runner import EnvRunner, carry_sizes
from marl.rollout.episode_callbacks import EpisodeCallbacks
from marl.rollout.episodes import play_episodes
from marl.rollout.info_log import InfoLog
from marl.rollout.known_names import register_names
from marl.rollout.postprocess import rewrite
from marl.rollout.rollout_buffer import Rollout, RolloutBuffer
from marl.rollout.stages import needs_new_envs, set_same_tasks
from marl.rollout.worker_policies import WorkerPolicies
from marl.trust import as_built, under

T = TypeVar("T")
log = logging.getLogger(__name__)


class RolloutWorker(WorkerPolicies):
    """``num_envs_per_worker`` copies of the env and the policies that play in them.

    ``policies`` lets the trainer's own policies act in this process; without it the worker builds its own.
    """

    runner_class: type[EnvRunner] = EnvRunner  # of collecting

    def __init__(self, spec: RolloutSpec, index: int, policies: Mapping[PolicyID, Policy] | None = None) -> None:
        torch.set_num_threads(spec.torch_threads)
        keep_freed_memory()
        set_log_level(spec.config.log_level)
        self.spec, self.index = spec, index
        with under(spec.trust):  # in this process, which may be another one than that which read the file
            register_names(spec)
            self.hooks = make_hooks(spec.config.callbacks, own=index > 0)
            self._take_policies(policies)
        self._rewrites = self.hooks.watches_episodes or "on_sample_end" in self.hooks
        self.rng = np.random.default_rng([spec.seed, index, 1])
        self._seeds = np.random.default_rng([spec.seed, index, 2])
        self._runner: EnvRunner | None = None
        self._evaluator: EnvRunner | None = None
        self._notes: list[str] = []
        self.version = 0
        self.stage = 0  # of the curriculum

    def _take_policies(self, policies: Mapping[PolicyID, Policy] | None) -> None:
        """Act with these policies, or with own ones, and record what they do."""
        spec = self.spec
        self.policy_map = policies or build_policies(spec.policies, spec.task.kinds)
        # Workers of one process act with the same objects, one after the other.
        self._shares_policies = policies is not None and spec.config.num_workers > 1
        self._place_policies()
        self._kinds = {name: recipe.kind for name, recipe in spec.policies.items()}
        names = list(self.policy_map)
        sizes = carry_sizes(list(self.policy_map.values()), [self._kinds[n] for n in names], len(spec.task.kinds))
        self.buffer = RolloutBuffer(spec.task, names, spec.config.num_envs_per_worker, spec.complete_episodes, sizes)
        self._infos = InfoLog() if spec.config.keep_infos else None

    # -- collecting ------------------------------------------------------------------------------------------------

    def collect(self, steps: int, with_state: bool = False) -> Rollout:
        """Play ``steps`` steps in every copy."""
        runner = self._runner or self._first_runner()
        if self._shares_policies:
            self._place_policies()
        runner.clock.pop()  # what was before is not a part of this round
        with self._weights_at_rest(runner):
            for row in self.buffer.extend(steps, all_recorded=True):
                self._collect_row(row, runner)
        runner.clock.lap("raw_obs_processing")
        batch = self.buffer.batch()
        if self._infos is not None:
            self._infos.put_into(batch)
        runner.check.look_at_rollout(batch, self.spec.config.check_bounds)
        if self._rewrites:
            rewrite(batch, self)
        self.buffer.keep_tail()
        if self._infos is not None:
            self._infos.keep(self.buffer.columns["eps_id"], self.buffer.columns["t"])
        rollout = Rollout(batch, runner.stats.pop(), self.buffer.lost_decisions, self._notes, version=self.version)
        self.buffer.lost_decisions, self._notes = 0, []
        if with_state:
            rollout.state = self.state_dict()
        log.debug("worker %d: %d steps in each of %d copies", self.index, steps, runner.env.num_envs)
        rollout.seconds = {**runner.clock.pop(), "steps": float(steps)}
        return rollout

    def _collect_row(self, row: int, runner: EnvRunner) -> None:
        choices = runner.decide(self.rng, explore=self.spec.config.explore)
        self.buffer.record(row, runner, choices)
        output = runner.advance(choices)
        if self._infos is not None:
            self._infos.note(runner)
        over = runner.settle(output)
        self.buffer.settle(row, runner, output)
        if over.size:
            runner.begin(over, self._draw_seeds(over.size))

    def _weights_at_rest(self, runner: EnvRunner) -> AbstractContextManager[None]:
        """Weights come between two rounds, unless a user's hooks, which are called in between, change some."""
        return runner.stacks.weights_at_rest() if runner.callbacks is None else nullcontext()

    def _place_policies(self) -> None:
        """Tell the policies for which worker they act now: in one process several workers share them."""
        for policy in self.policy_map.values():
            if policy.differs_by_worker:
                policy.place(max(0, self.index - 1), max(1, self.spec.config.num_workers))

    @property
    def runner(self) -> EnvRunner:
        """The running episodes; started when first needed."""
        return self._runner or self._first_runner()

    def _first_runner(self) -> EnvRunner:
        self._runner = self._new_runner()
        env_ids = np.arange(self._runner.env.num_envs)
        self._runner.begin(env_ids, self._draw_seeds(env_ids.size))
        return self._runner

    def begin(self) -> None:
        """Build the env and start its first episodes, unless that has been done."""
        if self._runner is None:
            self._first_runner()

    def _new_runner(self) -> EnvRunner:
        recipe, config = self.spec.stage(self.stage).env_recipe, self.spec.config
        env = self._make_env(recipe, config.num_envs_per_worker, self.spec.task.state_size > 0)
        self._tell_stage(env)
        return self._runner_in(env)

    def _runner_in(self, env: BatchedEnv) -> EnvRunner:
        runner = self.runner_class(
            env, self.policy_map, self._kinds, self.spec.mapper, self.spec.config, self.index, self.spec.teams
        )
        log.info("worker %d: %d copies of %s", self.index, env.num_envs, env.name)
        # Here alone: episodes of evaluations begin with their seeds.
        runner.soft_horizon = self.spec.config.soft_horizon
        runner.check.every_step = env.lifted  # the numbers of a native env are looked at rollout by rollout
        return self._with_callbacks(runner)

    def _with_callbacks(self, runner: EnvRunner, evaluating: bool = False) -> EnvRunner:
        if self.hooks.watches_episodes:
            runner.callbacks = EpisodeCallbacks(runner, self.hooks, self, evaluating)
        return runner

    @as_built(lambda worker: worker.spec.trust)
    def _make_env(self, recipe: EnvRecipe, copies: int, with_state: bool, render_mode: str | None = None) -> BatchedEnv:
        return make_batched_env(
            recipe.env, copies, recipe.env_config,
            worker_index=self.index,
            num_workers=self.spec.config.num_workers,
            fresh_env_per_episode=self.spec.config.fresh_env_per_episode,
            with_state=with_state,
            wrappers=recipe.wrappers,
            seed=self.spec.seed,
            remote=self.spec.config.on_ray and self.index > 0,
            render_mode=render_mode,
        )  # fmt: skip

    def context(self, env_id: int) -> EnvContext:
        """The ``env_config`` of one copy, which knows where the copy lives."""
        config, given = self.spec.config, self.spec.stage(self.stage).env_recipe.env_config
        remote = config.on_ray and self.index > 0
        return EnvContext(given, self.index, env_id, config.num_workers, run_seed=self.spec.seed, remote=remote)

    def make_copies(self, copies: int) -> BatchedEnv:
        """More copies of the env of training, for matches beside the learning; without a state, which is for learners."""
        return self._make_env(self.spec.env_recipe, copies, with_state=False)

    def make_drawing_runner(self) -> EnvRunner:
        """An env runner of its own on one more copy of the env, as it is in training now, that can be drawn."""
        env = self._make_env(self.spec.stage(self.stage).env_recipe, 1, with_state=False, render_mode="rgb_array")
        self._tell_stage(env)
        set_same_tasks(env, self._tasks())
        self._place_policies()
        return EnvRunner(
            env, self.policy_map, self._kinds, self.spec.mapper, self.spec.config, self.index, self.spec.teams
        )

    def _draw_seeds(self, count: int) -> Ints:
        return self._seeds.integers(0, 2**31 - 1, count)

    # -- evaluating ------------------------------------------------------------------------------------------------

    def evaluate(self, seeds: Sequence[int], explore: bool = False) -> EpisodeStats:
        """Play one episode per seed to its end, on envs of its own; results in the order of the seeds."""
        if not seeds:
            return EpisodeStats.empty()
        if self._evaluator is None:
            self._evaluator = self._new_evaluator(len(seeds))
        if self._runner is not None and self.spec.evaluation_takes_tasks:
            set_same_tasks(self._evaluator.env, self._runner.env.told)
        self._place_policies()
        return play_episodes(self._evaluator, seeds, explore)

    def drop_evaluator(self) -> None:
        """Its copies stand in the middle of episodes that nobody wants any more; the next evaluation makes new ones."""
        if self._evaluator is not None:
            close_all([self._evaluator.env], self._evaluator.env.name)
            self._evaluator = None

    def _new_evaluator(self, episodes: int) -> EnvRunner:
        config = self.spec.config
        copies = min(episodes, max(config.num_envs_per_worker, 4))
        stage = self.spec.stage(self.stage)
        recipe = stage.evaluation_recipe or stage.env_recipe
        env = self._make_env(recipe, copies, with_state=False)  # a state is for learners, and nobody learns here
        mapper = self.spec.evaluation_mapper or self.spec.mapper
        runner = EnvRunner(env, self.policy_map, self._kinds, mapper, config, self.index, self.spec.teams)
        return self._with_callbacks(runner, evaluating=True)

    # -- the user's hands ------------------------------------------------------------------------------------------

    @property
    def world(self) -> BatchedEnv:
        """The old name of ``env``, for one release."""
        return self.env

    @property
    def player(self) -> EnvRunner:
        """The old name of ``runner``, for one release."""
        return self.runner

    @property
    def grid(self) -> RolloutBuffer:
        """The old name of ``buffer``, for one release."""
        return self.buffer

    @property
    def env(self) -> BatchedEnv:
        return self.runner.env

    @property
    def has_env(self) -> bool:
        """The driver's worker beside Ray actors only holds policies, unless it was asked to have an env as well."""
        if self.index > 0:
            return True
        config = self.spec.config
        return config.num_workers == 0 or config.create_env_on_driver

    def foreach_env(self, fn: Callable[[Any], T]) -> list[T]:
        """Call ``fn`` with each copy of the env."""
        return [fn(self.env.sub_env(env_id)) for env_id in range(self.env.num_envs)]

    def ping(self) -> int:
        """I am here."""
        return self.index

    def run(self, fn: Callable[[RolloutWorker], T]) -> T:
        """Call ``fn`` with this worker."""
        return fn(self)

    def run_noting_tasks(self, fn: Callable[[RolloutWorker], T]) -> tuple[T, list[TaskMemory] | None]:
        """Call ``fn`` with this worker; also returns which tasks its copies of the env were given, if ``fn`` changed that."""
        before = self._tasks()
        answer = fn(self)
        after = self._tasks()
        return answer, None if same_tasks(before, after) else after

    # -- other policies --------------------------------------------------------------------------------------------

    def change_policies(self, spec: RolloutSpec, policies: Mapping[PolicyID, Policy] | None = None) -> int:
        """Play with other policies or another mapper from now on; returns how many running episodes are broken off.

        The copies of the env stay, with what they were told.
        """
        self.spec = spec
        with under(spec.trust):
            register_names(spec)
            self._take_policies(policies)
        self.drop_evaluator()
        old = self._runner
        if old is None:
            return 0
        self._runner = self._runner_in(old.env)
        self._runner.episodes_begun = old.episodes_begun
        env_ids = np.arange(old.env.num_envs)
        self._runner.begin(env_ids, self._draw_seeds(env_ids.size))
        return int((old.t > 0).sum())

    # -- stages and tasks ------------------------------------------------------------------------------------------

    def enter(self, stage: int) -> int:
        """Play this stage of the curriculum from now on; returns how many running episodes are broken off for it."""
        if stage == self.stage:
            return 0
        before, now = self.spec.stage(self.stage), self.spec.stage(stage)
        self.stage = stage
        self.drop_evaluator()
        old = self._runner
        if old is None:
            return 0
        cut = int((old.t > 0).sum())
        if needs_new_envs(before, now):
            self._close(old)
            self._runner = self._new_runner()
            self._runner.episodes_begun = old.episodes_begun
        else:
            self._tell_stage(old.env)
        self.buffer.clear()
        env_ids = np.arange(old.env.num_envs)
        self.runner.begin(env_ids, self._draw_seeds(env_ids.size))
        return cut

    def tell(self, tasks: Sequence[TaskMemory]) -> None:
        """Tell every copy what it was not told before."""
        set_same_tasks(self.runner.env, tasks)

    def _tell_stage(self, env: BatchedEnv) -> None:
        task = self.spec.stage(self.stage).task
        if task is not None:
            set_same_tasks(env, [{"set_task": task}])

    def _tasks(self) -> list[TaskMemory]:
        if self._runner is None:
            return []
        return [dict(tasks) for tasks in self._runner.env.told]

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """Everything but the weights: generators, episodes in flight, open decisions."""
        runner = self.runner.state_dict()  # first: the first episodes may only begin now, and draw seeds
        return {
            "rng": self.rng.bit_generator.state,
            "seeds": self._seeds.bit_generator.state,
            "player": runner,
            "grid": self.buffer.state_dict(),
            **({"callbacks": self.hooks.state_dict()} if self.hooks.owner is not None else {}),
            "stage": self.stage,
            **({"infos": self._infos.state_dict()} if self._infos is not None else {}),
        }

    def load_state_dict(self, state: State) -> None:
        if self._runner is not None and (self.stage != state.get("stage", 0) or any(self._tasks())):
            self._close(self._runner)  # a copy cannot be made to forget what it was told
            self._runner = None
            self.drop_evaluator()
        self.stage = state.get("stage", 0)
        if self._runner is None:
            self._runner = self._new_runner()
        self.buffer.load_state_dict(state["grid"])
        if self._infos is not None:
            self._infos.load_state_dict(state.get("infos", []))
        lost = self._runner.load_state_dict(state["player"])
        self.rng.bit_generator.state = state["rng"]
        self._seeds.bit_generator.state = state["seeds"]
        self.hooks.load_state_dict(state.get("callbacks"))
        if lost.size:
            self._notes.append(
                f"worker {self.index}: {lost.size} episode(s) were too long to be replayed and were started anew; "
                "give the env get_state() and set_state() for an exact resume."
            )
            self.buffer.forget(lost)
            self._runner.begin(lost, self._draw_seeds(lost.size))

    def close(self) -> None:
        for runner in (self._runner, self._evaluator):
            if runner is not None:
                self._close(runner)

    def _close(self, runner: EnvRunner) -> None:
        with runner.time_limit("close"):
            close_all([runner.env], runner.env.name)
