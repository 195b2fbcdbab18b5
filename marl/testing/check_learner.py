"""Conformance of algorithms: what every learner promises, tried out on a small env within seconds.

``check_learner("my_algo")`` trains the preset on ``signs`` (see ``sign_env.py``) and looks whether it learns, resumes
exactly, obeys masks, lives with agents that come and go, with different spaces and with policies that nobody needs,
leaves frozen policies alone, and does not care for the order of the copies; and whether its updates depend on what they
should (``update_checks.py``). An algorithm may refuse an env by a ``ConfigError`` before it starts; the report then
says so.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from marl.algos.family import Preset
from marl.algos.learner import Metrics
from marl.algos.presets import ALGOS
from marl.data.task import Ints
from marl.errors import ConfigError, UserError, did_you_mean
from marl.runs.result import without_wall_clock
from marl.testing.learner_report import DoesNotApply, Finding, LearnerReport, NotSo, Verdict
from marl.testing.sign_env import Signs
from marl.testing.small_runs import COPIES, ENV, STEPS, SmallRuns
from marl.testing.state_compare import NoLuck, check_finite, different, everything, in_order, known
from marl.testing.update_checks import UpdateChecks
from marl.training.trainer import Trainer

ITERATIONS = 24  # at most, until half of what can be learned has been learned
ENOUGH = 0.5  # share of the way from the untrained policy to perfect play


def check_learner(
    algo: str, config: Mapping[str, Any] | None = None, *, only: Collection[str] = (), seed: int = 0
) -> LearnerReport:
    """Try out what every algorithm promises.

    ``config`` are flat keys on top of the small settings of the check; ``only`` names some of the checks (default: all).
    """
    checks = Exam(ALGOS[algo], dict(config or {}), seed).checks()
    for name in only:
        if name not in checks:
            raise ConfigError(f"no check {name!r}. Checks: {', '.join(checks)}.{did_you_mean(name, checks)}")
    report = LearnerReport(algo)
    for name, check in checks.items():
        if not only or name in only:
            report.findings.append(_examine(name, check))
    return report


def _examine(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name, "passed", check())
    except UserError as refusal:
        # Only envs may be refused, and only by a word on the scenario: an error while training is a failure.
        optional = name.startswith(("learns", "obeys", "different", "agents"))
        verdict: Verdict = "failed"
        if optional and isinstance(refusal, ConfigError):
            verdict = "refused"
        return Finding(name, verdict, f"{type(refusal).__name__}: {refusal}")
    except NotSo as found:
        return Finding(name, "failed", str(found))
    except DoesNotApply as reason:
        return Finding(name, "does not apply", str(reason))


class Exam:
    """The checks of one preset. Each gives a sentence on what was seen, or raises."""

    def __init__(self, preset: Preset, config: dict[str, Any], seed: int) -> None:
        self.preset = preset
        self.runs = SmallRuns(preset, config, seed)

    def checks(self) -> dict[str, Callable[[], str]]:
        updates = UpdateChecks(self.runs)
        return {
            "learns choices": lambda: self.learns("discrete"),
            "learns coordinates": lambda: self.learns("box"),
            "resumes exactly": self.resumes,
            "obeys masks": lambda: self.survives(masked=True, actions="discrete"),
            "agents that come and go": lambda: self.survives(come_and_go=True),
            "different spaces": lambda: self.survives(two_kinds=True),
            "order of the copies": self.forgets_the_order,
            "frozen policies": self.leaves_frozen_alone,
            "policies without rows": self.accepts_no_rows,
            "step sizes": updates.obeys_step_sizes,
            "slow copies": updates.moves_copies,
            "seeds": updates.follows_its_seed,
            "obeys masks while learning": updates.learns_with_masks,
            "agents that are absent": updates.ignores_the_absent,
        }

    # -- the checks ------------------------------------------------------------------------------------------------

    def learns(self, actions: str) -> str:
        """Greedy play becomes much better than that of the untrained policy."""
        best = Signs(1, {"actions": actions}).best
        with self.lessons(actions) as keys:
            try:
                trainer = self.runs.trainer({"actions": actions}, **keys)
            except UserError:
                if actions == "discrete":
                    self.runs.actions = "box"  # the other checks play with what the algorithm does take
                raise
        with trainer:
            first = now = float(trainer.evaluate()["episode_reward_mean"])
            while trainer.iteration < ITERATIONS and now < first + ENOUGH * (best - first):
                trainer.train()
                check_finite(trainer)
                now = float(trainer.evaluate()["episode_reward_mean"])
            seen = (
                f"{first:.2f} before, {now:.2f} after {trainer.timesteps_total} env steps; perfect play earns {best:g}"
            )
        if now < first + ENOUGH * (best - first):
            raise NotSo(f"it hardly learned: {seen}.")
        return f"{seen}."

    @contextmanager
    def lessons(self, actions: str) -> Iterator[dict[str, str]]:
        """What learning needs besides play: imitators get recordings of perfect play."""
        if not (self.preset.family.on_policy and self.preset.configure().learns_from_recordings):
            yield {}
            return
        script = {"discrete": "right_choice", "box": "right_coordinates"}[actions]
        with tempfile.TemporaryDirectory() as folder:
            keys = {
                "env_config": {"actions": actions},
                "num_envs_per_worker": COPIES,
                "timesteps_per_iteration": 512,
                "policies": {"default_policy": {"scripted": f"marl.testing.sign_env:{script}"}},
                "output": folder,
            }
            with Trainer(env=ENV, config=keys) as teacher:
                teacher.train()
            yield {"input": folder}

    def resumes(self) -> str:
        """Two iterations, a checkpoint and two more equal four in one go, to the last bit."""
        with tempfile.TemporaryDirectory() as folder:
            with self.runs.trainer() as straight:
                expected = [without_wall_clock(straight.train()) for _ in range(4)]
                end = everything(straight)
            with self.runs.trainer() as first:
                results = [without_wall_clock(first.train()) for _ in range(2)]
                first.save(Path(folder) / "half")
            with self.runs.trainer() as second:
                second.restore(Path(folder) / "half")
                results += [without_wall_clock(second.train()) for _ in range(2)]
                changed = different(everything(second), end) or different(results, expected)
        if changed:
            raise NotSo(f"a resumed run differs from one that was not stopped, in {', '.join(changed[:5])}.")
        return "four iterations, with and without a checkpoint after the second."

    def survives(self, **env: Any) -> str:
        """A few iterations in another kind of env; the env itself complains about illegal actions."""
        with self.runs.trainer(env) as trainer:
            untrained = everything(trainer)["policies"]
            for _ in range(3):
                trainer.train()
                check_finite(trainer)
            if not different(everything(trainer)["policies"], untrained):
                raise NotSo("nothing was learned from: no policy changed in three iterations.")
            return f"three iterations, {trainer.timesteps_total} env steps."

    def forgets_the_order(self) -> str:
        """The same grid with its copies in another order gives the same metrics."""
        straight = self._metrics_of(np.arange(COPIES))
        if not straight:
            raise NotSo(f"a full batch of {COPIES * STEPS} env steps led to no update.")
        mixed = self._metrics_of(np.random.default_rng(self.runs.seed).permutation(COPIES))
        apart: list[str] = []
        numbers = 0
        for policy, row in straight.items():
            for name, value in row.items():
                other = mixed[policy][name]
                numbers += 1
                if abs(value - other) > 1e-5 * max(1.0, abs(value)):
                    apart.append(f"{name} ({value:g} and {other:g})")
        if apart:
            raise NotSo(f"two orders of the same copies gave different {', '.join(apart)}.")
        return f"{numbers} numbers within 1e-5."

    def _metrics_of(self, env_ids: Ints) -> Metrics:
        """What learners report on one grid with its copies in this order."""
        rows = COPIES * STEPS  # of each agent
        # Whole batches: of minibatches other rows would come together in another order.
        whole = {
            "train_batch_size": rows if self.preset.family.on_policy else 2 * rows,
            "sgd_minibatch_size": 2 * rows,
            "num_sgd_iter": 2,
            "updates_per_step": 1 / rows,
            "learning_starts": 1,
            "policy_delay": 1,
        }
        with self.runs.trainer(**known(self.preset, whole)) as trainer:
            if trainer.source is not trainer.workers:
                raise DoesNotApply("it does not learn from what its workers collect.")
            batch = in_order(trainer.workers.collect(STEPS).batch, env_ids)
            metrics: Metrics = {}
            for learner in trainer.learners:
                learner.rng = NoLuck(np.random.PCG64(0))
                metrics |= learner.learn(batch)
        return metrics

    def leaves_frozen_alone(self) -> str:
        """One of two policies learns; the other does not change by a bit."""
        with self.runs.trainer(policy_mapping_fn="per_agent", policies_to_train=["agent_0"]) as trainer:
            before = everything(trainer)["policies"]
            for _ in range(3):
                trainer.train()
            after = everything(trainer)["policies"]
        if different(before["agent_1"], after["agent_1"]):
            raise NotSo("the frozen policy changed.")
        if not different(before["agent_0"], after["agent_0"]):
            raise NotSo("the trained policy did not change.")
        return "the frozen policy is the same to the last bit, the other one learned."

    def accepts_no_rows(self) -> str:
        """A policy whose agent never appears harms nobody."""
        with self.runs.trainer({"never": ["agent_1"]}, policy_mapping_fn="per_agent") as trainer:
            before = everything(trainer)["policies"]
            for _ in range(3):
                trainer.train()
                check_finite(trainer)
            if not different(before["agent_0"], everything(trainer)["policies"]["agent_0"]):
                raise NotSo("the other policy did not learn.")
        return "the other policy learned."
