"""Small runs in the env of signs, on which ``check_learner`` tries out an algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from marl.algos.family import Preset
from marl.data.batch import MultiAgentBatch
from marl.policies.value_table import TABLE
from marl.testing.learner_report import DoesNotApply, NotSo
from marl.testing.state_compare import known, large_steps
from marl.training.trainer import Trainer

ENV = "marl.testing.sign_env:Signs"
COPIES = 16
STEPS = 16  # in every copy, of a grid that a learner is handed at once
SMALL: Mapping[str, Any] = {  # each preset takes those of them that it knows
    "gamma": 0.9, "sgd_minibatch_size": 128, "num_sgd_iter": 6, "learning_starts": 64, "buffer_size": 2_000,
    "updates_per_step": 0.25, "target_update_every": 20, "tau": 0.02, "num_perturbations": 10,
    "episodes_per_perturbation": 4, "noise_stdev": 0.3, "float_states": True, "regularisation_every": 4, "traversals": 16,
    "regret_updates": 20, "average_updates": 20, "value_updates": 40,
}  # fmt: skip
# A grid of so many rows leads to a few updates at once.
AT_ONCE: Mapping[str, Any] = {
    "num_sgd_iter": 2, "updates_per_step": 4 / (COPIES * STEPS), "learning_starts": 1, "policy_delay": 1,
}  # fmt: skip


class SmallRuns:
    """Trainers of one preset. ``actions`` is what most checks play with: box where choices are refused."""

    def __init__(self, preset: Preset, config: Mapping[str, Any], seed: int) -> None:
        self.preset, self.config, self.seed = preset, dict(config), seed
        self.actions = "discrete"

    def given(self, **keys: Any) -> dict[str, Any]:
        """Flat keys of a run; the user's win over the small ones, a check's own over both."""
        rows = 256 if self.preset.family.on_policy else 64
        small = {**SMALL, **large_steps(self.preset), "train_batch_size": rows}
        return {**known(self.preset, small), **self.config, **keys}

    def trainer(self, env: Mapping[str, Any] | None = None, **keys: Any) -> Trainer:
        steps = 256 if self.preset.family.on_policy else 128
        config: dict[str, Any] = {
            "num_envs_per_worker": COPIES,
            "timesteps_per_iteration": steps,
            "seed": self.seed,
            "evaluation": {"interval": 0, "episodes": 50},
            "env_config": {"actions": self.actions, **(env or {})},
        }
        if self.preset.family.acts != TABLE:
            config["fcnet_hiddens"] = [32]
        # Keys of learning by their section: flat, those that only a user's own family has would not be known.
        algo: dict[str, Any] = {}
        for key, value in self.given(**keys).items():
            section = algo if key in self.preset.family.config.model_fields else config
            section[key] = value
        # Last: workers of other processes could not be looked into.
        config |= {"algo": algo, "pool": "in_process", "num_workers": 0}
        return Trainer(self.preset.name, env=ENV, config=config)

    def at_once(self, env: Mapping[str, Any] | None = None, **keys: Any) -> Trainer:
        """A run whose learners make a few updates on the first grid of ``STEPS`` that they are handed."""
        wanted = dict(AT_ONCE)
        if self.preset.family.on_policy:
            wanted["train_batch_size"] = COPIES * STEPS
        trainer = self.trainer(env, **{**known(self.preset, wanted), **keys})
        if trainer.source is not trainer.workers:
            trainer.stop()
            raise DoesNotApply("it does not learn from what its workers collect.")
        return trainer

    def learned_from(
        self, change: Callable[[MultiAgentBatch], None], env: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """What updates on the first grid, changed like this, make of the policies and of all that the learners keep."""
        with self.at_once(env) as trainer:
            batch = trainer.workers.collect(STEPS).batch
            change(batch)
            hand_over(trainer, batch)
            return learned(trainer)


def learned(trainer: Trainer) -> dict[str, Any]:
    """Weights of the policies and all that the learners keep."""
    return {"policies": trainer.get_weights(), "learners": [learner.state_dict() for learner in trainer.learners]}


def hand_over(trainer: Trainer, batch: MultiAgentBatch) -> None:
    """Let all learners learn from this grid; somebody has to."""
    metrics = [learner.learn(batch) for learner in trainer.learners]
    if not any(metrics):
        raise NotSo(f"a full batch of {batch.env_steps} env steps led to no update.")
