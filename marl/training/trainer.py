"""The loop: collect, learn, send the weights out, look how it went, write it down."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch

from marl.algos.learner import Learner, Metrics
from marl.data.batch import MultiAgentBatch
from marl.data.episode import Episode, EpisodeStats
from marl.data.task import AgentID, Array, PolicyID
from marl.envs.base import Action, Obs
from marl.errors import ConfigError, did_you_mean
from marl.play.actor import Actor, ask_all, policies_of
from marl.play.export import export_policies, import_weights
from marl.policies.build import build_policies, weights_of
from marl.policies.policy import Policy
from marl.registry import load_object
from marl.rollout.pool import Collected, WorkerPool
from marl.runs.custom_metrics import pictures, without_pictures
from marl.runs.lock import check_unlocked
from marl.runs.result import Result, episode_numbers, look_up, reached
from marl.runs.system_info import Usage, experiment_id, whereabouts
from marl.scenario.config import Scenario
from marl.scenario.describe import describe
from marl.scenario.load import compose
from marl.scenario.resolve import Setup, resolve
from marl.training.build import check_fields, choose_device, make_pool
from marl.training.extensions.callbacks import connect, finish_evaluation, finish_result, take_pictures
from marl.training.extensions.curriculum import Curriculum, change_envs_if_due, stops_that_count
from marl.training.extensions.population import end_round_if_due, make_examiner, make_population, population_numbers
from marl.training.extensions.video import Camera, make_camera
from marl.training.learners import Learners, make_learners
from marl.training.memory_estimate import check_memory
from marl.training.sources import Source, choose_source, close_source
from marl.training.store import Store, check_loaded, load_policy
from marl.training.timers import Timers
from marl.trust import Sort, as_built

RECENT = 100  # episodes that a result covers when fewer ended in its iteration
CHOICE = Sort("policies_to_train", creators=True)
_as_built = as_built(lambda trainer: trainer.setup.rollout.trust)


class Trainer:
    """Trains the policies of one scenario.

    ``Trainer("qmix", env="two_step_game", config={"lr": 1e-3})`` or ``Trainer(scenario=...)``. Nothing is written to
    disk unless ``run`` or ``save`` is called, or a ``directory`` is given. With ``fresh=False`` a checkpoint will be
    restored, so ``load`` is not followed. A ``setup`` is a scenario that has been resolved already.
    """

    def __init__(
        self,
        algo: str | None = None,
        env: str | Callable[..., Any] | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        scenario: Scenario | None = None,
        setup: Setup | None = None,
        directory: Path | str | None = None,
        fresh: bool = True,
    ) -> None:
        if (scenario is not None or setup is not None) and (algo is not None or env is not None or config):
            raise ConfigError("give Trainer a scenario, or algo, env and config, not both.")
        if directory is not None:
            check_unlocked(Path(directory))  # before anything is started
        keys = dict(config or {})
        if env is not None:
            keys["env"] = env
        if algo is not None:
            keys["algo"] = {**_as_dict(keys.get("algo")), "name": algo}
        self.scenario = setup.scenario if setup is not None else scenario or compose(keys)
        torch.set_num_threads(self.scenario.torch_threads)
        self.setup: Setup = setup or resolve(self.scenario)
        check_fields(self.scenario, list(self.setup.policies))
        check_memory(self.setup)
        self.curriculum = Curriculum(self.scenario)
        self.examiner = make_examiner(self.setup) if self.scenario.exploitability.interval else None
        self.camera: Camera | None = make_camera(self.setup)
        self.device = choose_device(self.scenario)
        self.policies = self._build_policies(fresh)
        self.learning: Learners = make_learners(self.setup, self.policies)
        self.learners: list[Learner] = self.learning.members
        self.choose_trained: Callable[..., bool] | None = None
        with ExitStack() as undo:  # whoever fails here leaves no process behind
            undo.callback(self.learning.stop)
            self._set_initial_trained()
            self.workers: WorkerPool = make_pool(self.setup, self.policies)
            self.source: Source = choose_source(self.setup, self.workers, self.learners)
            undo.pop_all()
        self.hooks = connect(self)
        self.population = make_population(self)
        self.extra: dict[str, float] = {}  # newest numbers of the source
        self.timers = Timers()
        self.usage = Usage() if self.scenario.log_sys_usage else None
        self.iteration = 0
        self.timesteps_total = 0
        self.agent_timesteps_total = 0
        self.episodes_total = 0
        self.time_total_s = 0.0
        self.decisions_lost = 0  # truncated without a last observation
        self.recent = EpisodeStats.empty()
        self.last_metrics: dict[PolicyID, dict[str, float]] = {}
        self.last_evaluation: Result | None = None
        self.last_result: Result = {}
        self.best_evaluation: float | None = None
        self.trial_id = secrets.token_hex(3)[:5]
        self.experiment_id = experiment_id()
        self.notes: list[str] = []
        if self.examiner is not None and self.examiner.why_trained:
            self.notes.append(f"exploitability: best responses are trained, because {self.examiner.why_trained}")
        self.store = Store(self, Path(directory) if directory is not None else None)

    def _build_policies(self, fresh: bool) -> dict[PolicyID, Policy]:
        policies = build_policies(self.setup.policies, self.setup.task.kinds)
        for policy in policies.values():
            policy.to(self.device)
        for name, path in self.scenario.load.items() if fresh else ():  # a restored run has its own weights
            load_policy(policies[name], name, path)
        if fresh:
            check_loaded(policies, self.scenario.load)
        return policies

    def _set_initial_trained(self) -> None:
        wanted = self.scenario.multiagent.policies_to_train
        if isinstance(wanted, str):
            found = load_object(wanted, CHOICE)
            if not callable(found):
                raise ConfigError(f"policies_to_train {wanted!r} is a {type(found).__name__}; expected a function.")
            self.choose_trained = found
        elif callable(wanted):
            self.choose_trained = wanted
        elif wanted is not None:
            self.set_policies_to_train(wanted)
        for name in self.policies_to_train & set(self.scenario.load):  # a loaded policy that learns explores anew
            self.policies[name].anneal(0)

    # -- the loop --------------------------------------------------------------------------------------------------

    @_as_built
    def train(self) -> Result:
        """One iteration: rounds of collecting and learning, then evaluation if it is due; gives the result."""
        self.store.check_own()
        started = time.perf_counter()
        self.timers.clear()
        steps, agent_steps, episodes, metrics = 0, 0, [], self.last_metrics
        while steps < self.setup.iteration_steps:
            collected, learned = self._round()
            steps += collected.env_steps
            agent_steps += collected.agent_steps
            episodes.append(collected.episodes)
            metrics = {**metrics, **learned}
        self.iteration += 1
        self.timesteps_total += steps
        self.agent_timesteps_total += agent_steps
        self.last_metrics = {name: row for name, row in metrics.items() if name in self.policies_to_train}
        end_round_if_due(self)
        fresh = EpisodeStats.concat(episodes)
        self.episodes_total += len(fresh)
        self.recent = EpisodeStats.concat([self.recent, fresh]).last(max(RECENT, len(fresh)))
        result = self._result(steps, agent_steps, len(fresh))
        result["time_total_s"] = self.time_total_s + time.perf_counter() - started  # a stop condition may ask for it
        self.recent = without_pictures(self.recent.last(RECENT))
        self._evaluate_if_due(result)
        if self.camera is not None:
            self.camera.after_iteration(self, bool(result["done"]))
        took = time.perf_counter() - started
        self.time_total_s += took
        result |= {
            "time_this_iter_s": took,
            "time_total_s": self.time_total_s,
            "timers": self.timers.numbers(steps),
            "sampler_perf": self.timers.sampler_numbers(),
            **({"perf": self.usage.numbers()} if self.usage is not None else {}),
        }
        finish_result(self, result)
        self.last_result = result
        change_envs_if_due(self, result)
        self.store.written(result)
        return result

    def _round(self) -> tuple[Collected, Metrics]:
        with self.timers("sample"):
            collected = self.source.collect(self.setup.fragment)
        self.notes += collected.notes
        self.decisions_lost += collected.decisions_lost
        self.timers.add_sampler(collected.seconds)
        if self.choose_trained is not None:
            choose = self.choose_trained
            self.set_policies_to_train([n for n in self.setup.roles if choose(n, collected.batch)])
        with self.timers("learn"):
            metrics = self.learning.learn(collected.batch)
        self.timers.move("learn", "load", sum(one.clock.pop().get("load", 0.0) for one in self.learners))
        if any(learner.trained for learner in self.learners):
            with self.timers("sync"):
                self.workers.sync_weights()
        self.extra |= collected.extra
        return collected, metrics

    def _evaluate_if_due(self, result: Result) -> None:
        due = {
            "evaluation": (self.scenario.evaluation.interval, self.evaluate),
            "exploitability": (self.scenario.exploitability.interval, self.measure_exploitability),
        }
        for name, (interval, measure) in due.items():
            if interval and self.iteration % interval == 0:
                result[name] = measure()
        result["done"] = self.should_stop(result)
        for name, (interval, measure) in due.items():
            if result["done"] and interval and name not in result:
                result[name] = measure()
        if "evaluation" in result:
            take_pictures(result)
            self.last_evaluation = result["evaluation"]
            self._note_best(result)

    @_as_built
    def evaluate(self) -> Result:
        """Greedy episodes on envs of their own. Episode ``i`` has the seed (run seed, iteration, i)."""
        config = self.scenario.evaluation
        with self.timers("evaluation"):
            seeds = [_seed(self.scenario.seed, self.iteration, i) for i in range(config.episodes)]
            stats = self.workers.evaluate(seeds, config.explore)
        return finish_evaluation(self, stats, {**episode_numbers(stats, list(self.policies)), "episodes": len(stats)})

    @_as_built
    def measure_exploitability(self) -> Result:
        """How far the policies are from equilibrium; by the scenario's ``exploitability`` section."""
        examiner = self.examiner or make_examiner(self.setup)
        with self.timers("exploitability"):
            return examiner.measure(self.policies, self.workers, self.iteration).as_json()

    def _note_best(self, result: Result) -> None:
        value = look_up(result["evaluation"], self.scenario.evaluation.metric)
        if value is not None and (self.best_evaluation is None or value > self.best_evaluation):
            self.best_evaluation = value
            self.store.new_best()
        result["best_evaluation"] = self.best_evaluation

    def should_stop(self, result: Mapping[str, Any]) -> bool:
        """Whether any stop condition is met."""
        stop = stops_that_count(self, result)
        if stop.pop("goal", False) and self.scenario.goal and reached(result, self.scenario.goal):
            return True
        return any(reached(result, {field: float(value)}) for field, value in stop.items())

    @property
    def finished(self) -> bool:
        """Whether a stop condition was met before this moment, as after resuming a run that had ended."""
        counted = ("training_iteration", "timesteps_total", "episodes_total", "time_total_s")
        values = (self.iteration, self.timesteps_total, self.episodes_total, self.time_total_s)
        return self.should_stop({**self.last_result, **dict(zip(counted, values, strict=True))})

    @property
    def goal_met(self) -> bool | None:
        """Whether the last result, with the last evaluation, met the goal; None without a goal."""
        if not self.scenario.goal:
            return None
        last = {**self.last_result, "evaluation": self.last_evaluation or {}}
        return self.curriculum.in_last_stage(last) and reached(last, self.scenario.goal)

    def _result(self, steps: int, agent_steps: int, episodes: int) -> Result:
        counters = _summed([learner.counters for learner in self.learners])
        trained = self.policies_to_train
        return {
            **episode_numbers(self.recent, list(self.policies)),
            "episode_media": pictures(self.recent),
            "episodes_this_iter": episodes,
            "episodes_total": self.episodes_total,
            "training_iteration": self.iteration,
            "timesteps_this_iter": steps,
            "timesteps_total": self.timesteps_total,
            "agent_timesteps_total": self.agent_timesteps_total,
            "num_healthy_workers": self.workers.num_healthy_workers,
            "info": {
                "learner": {n: self._learner_numbers(n) for n in self.last_metrics if n in trained},
                "num_steps_sampled": self.timesteps_total,
                "num_agent_steps_sampled": self.agent_timesteps_total,
                **counters,
                **self.extra,
                "num_decisions_lost": self.decisions_lost,
            },
            "agent_timesteps_this_iter": agent_steps,
            "policies_to_train": sorted(trained),
            "seed": self.scenario.seed,
            "trial_id": self.trial_id,
            "experiment_id": self.experiment_id,
            **whereabouts(),
            "config": describe(self.scenario),
            **self.curriculum.numbers(self.timesteps_total),
            **population_numbers(self),
        }

    def _learner_numbers(self, policy: PolicyID) -> Result:
        errors = [one.td_errors[policy].tolist() for one in self.learners if policy in one.td_errors]
        return {"learner_stats": self.last_metrics[policy], **({"td_error": errors[0]} if errors else {})}

    def run(self) -> Result:
        """Train until a stop condition is met, into a run directory; gives the last result."""
        from marl.runs.places import default_results
        from marl.training.loop import run_until_stopped

        if not self.scenario.stop:
            raise ConfigError("run() needs a stop condition, for instance stop: {timesteps_total: 100000}.")
        if self.store.directory is None:
            self.store.create(default_results())
        return run_until_stopped(self).result

    # -- files -----------------------------------------------------------------------------------------------------

    @_as_built
    def save(self, path: Path | str | None = None) -> Path:
        """Write a checkpoint, by default into the run directory; gives its folder."""
        return self.store.save(None if path is None else Path(path))

    @_as_built
    def restore(self, path: Path | str) -> None:
        """Go on exactly where the checkpoint was written."""
        self.store.restore(Path(path))

    @classmethod
    def from_checkpoint(cls, path: Path | str, *, allow: Collection[str] = (), **changes: Any) -> Trainer:
        """A trainer rebuilt from a checkpoint alone. Modules that it names must be allowed by ``allow``."""
        return Store.rebuild(cls, Path(path), frozenset(allow), changes)

    def stop(self) -> None:
        """Free workers and files."""
        if self.camera is not None:
            self.camera.close()
        close_source(self.source)
        self.workers.stop()
        self.learning.stop()
        self.store.close()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- policies --------------------------------------------------------------------------------------------------

    @property
    def policies_to_train(self) -> frozenset[PolicyID]:
        return frozenset().union(*(learner.trained for learner in self.learners)) if self.learners else frozenset()

    def set_policies_to_train(self, policies: Collection[PolicyID]) -> None:
        """Train only these from now on; the others stay as they are, bit for bit."""
        for name in policies:
            if name not in self.setup.roles:
                raise ConfigError(
                    f"policy {name!r} cannot be trained. Trainable: "
                    f"{', '.join(self.setup.roles)}.{did_you_mean(name, self.setup.roles)}"
                )
        self.learning.set_trained(policies)

    def get_policy(self, policy_id: PolicyID = "default_policy") -> Policy:
        """A policy by its id; where there is only one, the default id finds it."""
        if policy_id == "default_policy" and policy_id not in self.policies and len(self.policies) == 1:
            return next(iter(self.policies.values()))
        if policy_id not in self.policies:
            raise ConfigError(
                f"no policy {policy_id!r}. Policies: "
                f"{', '.join(self.policies)}.{did_you_mean(policy_id, self.policies)}"
            )
        return self.policies[policy_id]

    def get_weights(self, policies: Sequence[PolicyID] | None = None) -> dict[PolicyID, dict[str, Array]]:
        return weights_of({name: self.get_policy(name) for name in policies or self.policies})

    def set_weights(self, weights: Mapping[PolicyID, dict[str, Array]]) -> None:
        """Change policies and bring them to the workers."""
        for name, arrays in weights.items():
            self.get_policy(name).set_weights(arrays)
        self.workers.sync_weights()

    def compute_action(
        self,
        obs: Obs,
        *,
        policy_id: PolicyID = "default_policy",
        agent: AgentID | None = None,
        explore: bool = False,
        state: Array | None = None,
        prev_action: Action | None = None,
        prev_reward: float = 0.0,
        info: Mapping[str, Any] | None = None,
        full_fetch: bool = False,
    ) -> Action | tuple[Action, Array, dict[str, float]]:
        """What the policy does for one observation as the env gives it.

        A recurrent policy also takes the ``state`` that the call before gave, the reward since, and what was really done
        since, if that is not what the call before gave. ``info`` may hold an ``action_mask``. With ``full_fetch`` the answer
        is (action, state, {"action_logp": ...}). Preprocessors and filters are applied; filters do not learn from it.
        """
        actor = self._actor(policy_id)
        return actor.compute_action(
            obs, agent=agent, explore=explore, state=state, prev_action=prev_action, prev_reward=prev_reward, info=info,
            full_fetch=full_fetch,
        )  # fmt: skip

    def compute_actions(
        self,
        obs: Mapping[AgentID, Obs],
        *,
        policy_id: PolicyID | None = None,
        episode: Episode | None = None,
        explore: bool = False,
        state: Mapping[AgentID, Array] | None = None,
        prev_action: Mapping[AgentID, Action] | None = None,
        prev_reward: Mapping[AgentID, float] | None = None,
        info: Mapping[AgentID, Mapping[str, Any]] | None = None,
        full_fetch: bool = False,
    ) -> Any:
        """The same for several agents: dicts by agent in and out; with ``full_fetch`` three of them.

        ``policy_mapping_fn`` says who decides, unless ``policy_id`` does; where it draws, the same ``episode`` keeps the draw.
        """
        setup = self.setup
        mapper = setup.rollout.mapper if setup.stage is None else setup.stage.answers()
        names = dict.fromkeys(obs, policy_id) if policy_id else policies_of(obs, mapper, list(self.policies), episode)
        actors = {agent: self._actor(str(name)) for agent, name in names.items()}
        return ask_all(actors, obs, explore, state, prev_action, prev_reward, info, full_fetch)

    def _actor(self, policy_id: PolicyID) -> Actor:
        return Actor(self.get_policy(policy_id), self.setup.rollout.config)

    def export_model(self, path: Path | str, policies: Sequence[PolicyID] | None = None) -> list[Path]:
        """Write policies (all, or these) as safetensors and JSON, each into a folder of its name: see ``load_policy``."""
        return export_policies(Path(path), self.setup, self.get_weights(), policies)

    def import_model(self, path: Path | str, policies: Sequence[PolicyID] | None = None) -> list[PolicyID]:
        """Take weights from ``export_model`` (all that are there and here, or these); gives the policies that changed."""
        return import_weights(self, Path(path), policies)

    def value_function(self, policy_id: PolicyID, batch: MultiAgentBatch) -> Array:
        """The critic's values of the policy's decisions in a batch, in the order of ``batch.for_policy(policy_id)``."""
        learner = next((one for one in self.learners if policy_id in one.policies), None)
        if learner is None:
            raise ConfigError(f"policy {policy_id!r} does not learn, so it has no critic.")
        return learner.value_function(policy_id, batch)


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(list(numbers)).generate_state(1)[0] >> 1)


def _summed(counters: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Counts of all learners together; the time of the last target update is the newest one."""
    total: dict[str, int] = {}
    for row in counters:
        for name, value in row.items():
            total[name] = max(total.get(name, 0), value) if name.startswith("last_") else total.get(name, 0) + value
    return total


def _as_dict(algo: object) -> dict[str, Any]:
    return dict(algo) if isinstance(algo, Mapping) else {}
