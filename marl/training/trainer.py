"""The loop: collect, learn, send the weights out, look how it went, write it down."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from marl.data.clock import Timers
from marl.data.episode import EpisodeStats
from marl.data.task import PolicyID
from marl.errors import ConfigError
from marl.runs.lock import check_unlocked
from marl.runs.result import Result, reached
from marl.runs.system_info import Usage, experiment_id
from marl.scenario.config import Scenario
from marl.scenario.resolve import Setup
from marl.training.build import build_parts, prepare, scenario_of
from marl.training.change_policies import ChangingPolicies
from marl.training.extensions.chosen import Extensions
from marl.training.extensions.evaluation import EvaluationBrokenOff
from marl.training.iteration_result import Learned, add_times, begin_result, to_keep
from marl.training.rounds import learn_iteration
from marl.training.sources import close_source
from marl.training.store import Store
from marl.trust import as_built

COUNTERS = (
    "decisions_lost", "iteration", "timesteps_total", "agent_timesteps_total", "episodes_total", "time_total_s", "trial_id",
    "experiment_id",
)  # fmt: skip
_as_built = as_built(lambda trainer: trainer.setup.rollout.trust)


class Trainer(ChangingPolicies):
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
        self.setup = setup = prepare(setup or scenario or scenario_of(algo, env, config))
        self.scenario = setup.scenario
        self.extensions = Extensions(self.setup)
        parts = build_parts(self.setup, fresh)
        self.policies, self.workers, self.source = parts.policies, parts.workers, parts.source
        self.learning, self.learners = parts.learning, parts.learning.members
        self.choose_trained = parts.choose_trained
        self.extensions.join(self)
        self.curriculum = self.extensions.curriculum
        self.evaluation = self.extensions.evaluation
        self.exploitability = self.extensions.exploitability
        self.hooks = self.extensions.callbacks.hooks
        self.population = self.extensions.rounds.population
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
        self.last_result: Result = {}
        self.unmeasured: Learned | None = None  # of the last iteration, if its evaluation was broken off
        self.policies_changed = False  # since the run began
        self.trial_id = secrets.token_hex(3)[:5]
        self.experiment_id = experiment_id()
        self.notes: list[str] = [self.exploitability.note] if self.exploitability.note else []
        self.store = Store(self, Path(directory) if directory is not None else None)

    @property
    def last_evaluation(self) -> Result | None:
        return self.evaluation.last

    @property
    def best_evaluation(self) -> float | None:
        return self.evaluation.best

    # -- the loop --------------------------------------------------------------------------------------------------

    @_as_built
    def train(self) -> Result:
        """One iteration: rounds of collecting and learning, then whatever is due; returns the result.

        An iteration whose evaluation was broken off is not over: it is taken up where it was left.
        """
        self.store.check_own()
        started = time.perf_counter()
        self.timers.clear()
        learned = self.unmeasured or learn_iteration(self)
        result = begin_result(self, learned)
        result["time_total_s"] = self.time_total_s + time.perf_counter() - started  # a stop condition may ask for it
        try:
            self._measure(result)
        except EvaluationBrokenOff:
            self.unmeasured = learned
            self.time_total_s += time.perf_counter() - started
            raise
        self.unmeasured = None
        took = time.perf_counter() - started
        self.time_total_s += took
        add_times(self, result, took)
        for extension in self.extensions:
            extension.after_result(self, result)
        self.last_result = result
        self.store.written(result)
        return result

    def _measure(self, result: Result) -> None:
        """Whatever is due after learning, and whether the run is over."""
        for extension in self.extensions:
            extension.after_iteration(self, result)
        result["done"] = self.should_stop(result)
        for extension in self.extensions:
            extension.after_done(self, result)

    @_as_built
    def evaluate(self) -> Result:
        """Greedy episodes on envs of their own. Episode ``i`` has the seed (run seed, iteration, i)."""
        return self.evaluation.measure(self)

    @_as_built
    def measure_exploitability(self) -> Result:
        """How far the policies are from equilibrium; by the scenario's ``exploitability`` section."""
        return self.exploitability.measure(self)

    def should_stop(self, result: Mapping[str, Any]) -> bool:
        """Whether any stop condition is met."""
        stop = self.curriculum.stops_that_count(result, self.scenario.stop)
        if stop.pop("goal", False) and self.scenario.goal and reached(result, self.scenario.goal):
            return True
        return any(reached(result, {field: float(value)}) for field, value in stop.items())

    @property
    def finished(self) -> bool:
        """Whether a stop condition was met before this moment, as after resuming a run that had ended."""
        if self.unmeasured is not None:  # its last iteration is not over
            return False
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

    def forget_episodes(self) -> None:
        """A new stage of a curriculum begins: numbers of episodes and evaluations belong to the stage before."""
        self.recent = EpisodeStats.empty()
        self.evaluation.forget()

    def run(self) -> Result:
        """Train until a stop condition is met, into a run directory; returns the last result."""
        from marl.runs.directories import default_results
        from marl.training.loop import run_until_stopped

        if not self.scenario.stop:
            raise ConfigError("run() needs a stop condition, for instance stop: {timesteps_total: 100000}.")
        if self.store.directory is None:
            self.store.create(default_results())
        return run_until_stopped(self).result

    # -- files -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """What has been counted and seen so far: the part ``run`` of a checkpoint, without the scenario."""
        curriculum = self.curriculum.state_dict()
        return {
            "counters": {**{name: getattr(self, name) for name in COUNTERS}, "best_evaluation": self.evaluation.best},
            "recent": vars(self.recent),
            "last_metrics": self.last_metrics,
            "last_evaluation": self.evaluation.last,
            "last_result": to_keep(self.last_result),
            "callbacks": self.hooks.state_dict(),
            "policies_to_train": sorted(self.policies_to_train),
            **({"policies_changed": True} if self.policies_changed else {}),
            **({"unmeasured": self.unmeasured.state_dict()} if self.unmeasured is not None else {}),
            **({"curriculum": curriculum} if curriculum else {}),
            "plausible": self.extensions.plausible.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with these counters, episodes and extensions; policies, learners and workers are loaded apart."""
        counters = state["counters"]
        for name in COUNTERS:
            if name in counters:  # older checkpoints know fewer
                setattr(self, name, counters[name])
        self.evaluation.best = counters.get("best_evaluation", self.evaluation.best)
        self.evaluation.last = state["last_evaluation"]
        self.recent = EpisodeStats(**state["recent"])
        self.last_metrics = state["last_metrics"]
        self.last_result = state["last_result"]
        self.unmeasured = Learned.from_state(state["unmeasured"]) if "unmeasured" in state else None
        if self.curriculum.stages:
            self.curriculum.load_state_dict(state["curriculum"])
            self.workers.stage = self.curriculum.stage
        self.extensions.plausible.load_state_dict(state.get("plausible", {}))
        self.policies_changed = bool(state.get("policies_changed", False))
        self.hooks.load_state_dict(state.get("callbacks"))
        if self.scenario.multiagent.policies_to_train == state["scenario"]["multiagent"]["policies_to_train"]:
            self.set_policies_to_train(state["policies_to_train"])  # else the new scenario decides

    @_as_built
    def save(self, path: Path | str | None = None) -> Path:
        """Write a checkpoint, by default into the run directory; returns its folder."""
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
        for extension in self.extensions:
            extension.close()
        close_source(self.source)
        self.workers.stop()
        self.learning.stop()
        self.store.close()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
