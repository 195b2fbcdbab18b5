"""Checks of what single updates depend on: keys, seeds, masks, who is there, and copies that follow what is learned.

An update that ignores one of these learns nearly as well in a small env, so that no learning curve would tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from marl.algos.config import ReplayConfig
from marl.data.batch import MultiAgentBatch
from marl.data.task import Array
from marl.data.tree import pack
from marl.errors import ConfigError
from marl.testing.learner_report import DoesNotApply, NotSo
from marl.testing.small_runs import STEPS, SmallRuns, hand_over, learned
from marl.testing.state_compare import different, same_bits
from marl.training.trainer import Trainer

PATIENCE = 16  # iterations in which a slow copy has to move
FEW_UPDATES = 1 / 16  # per env step, where a run only has to differ from another one


class UpdateChecks:
    """Each check gives a sentence on what was seen, or raises."""

    def __init__(self, runs: SmallRuns) -> None:
        self.runs = runs

    # -- keys ------------------------------------------------------------------------------------------------------

    def obeys_step_sizes(self) -> str:
        """Another step size, schedule or largest norm of the gradient leads to other weights."""
        usual = self._trained()
        counted: list[str] = []
        idle: list[str] = []
        for key, value in self._other_rates().items():
            try:
                changed = self._trained(**{key: value})
            except ConfigError:  # refused rather than ignored
                continue
            if different(changed, usual):
                counted.append(key)
            else:
                idle.append(key)
        if idle:
            raise NotSo(
                f"{', '.join(idle)} changed nothing in two iterations. A key that the algorithm does not look at has to be "
                "refused by its config."
            )
        return f"{', '.join(counted)} change what is learned."

    def _other_rates(self) -> dict[str, Any]:
        """Other values for the keys of this preset that say how far an update goes."""
        given = self.runs.preset.configure().model_dump() | self.runs.given()
        rates: dict[str, Any] = {}
        for key in self.runs.preset.family.config.model_fields:
            if key.endswith("_schedule"):
                # Half of the constant value that the schedule takes the place of; many are 0 unless they are set.
                constant = given.get(key.removesuffix("_schedule")) or 0.2
                rates[key] = [[0, constant / 2]]
            elif key == "grad_clip":
                rates[key] = 1e-3  # so small that every gradient is cut
            elif key.split("_")[-1] == "lr":
                rates[key] = (given[key] or given["lr"]) / 2  # a step size of its own is lr unless it is set
        return rates

    def _trained(self, **keys: Any) -> Any:
        few: dict[str, Any] = {}
        if "updates_per_step" in self.runs.preset.family.config.model_fields:
            few["updates_per_step"] = FEW_UPDATES
        with self.runs.trainer(**few, **keys) as trainer:
            trainer.train()
            trainer.train()
            if trainer.source is trainer.workers:
                return trainer.get_weights()
            return learned(trainer)  # what plays games of its own may be in the learner, and move the policy only later

    # -- slow copies -----------------------------------------------------------------------------------------------

    def moves_copies(self) -> str:
        """What began as a copy of something that learns does not stay where it was."""
        with self.runs.trainer() as trainer:
            first = _arrays(trainer)
            groups = _copies(first)
            if not groups:
                raise DoesNotApply("it keeps no copies of what it learns.")
            behind: dict[str, str] = {}
            for _ in range(PATIENCE):
                trainer.train()
                now = _arrays(trainer)
                moved = {name for name in first if not same_bits(first[name], now.get(name))}
                behind = _left_behind(groups, moved)
                if moved and not behind:
                    break
            updates = sum(learner.counters["num_updates"] for learner in trainer.learners)
        if behind:
            copy, source = next(iter(behind.items()))
            raise NotSo(
                f"{copy} began as a copy of {source} and did not move in {updates} updates, in which {source} did. A slow "
                "copy has to follow what it was made from."
            )
        copies = sum(len(names) - 1 for names in groups)
        return f"{copies} arrays that began as copies of others moved within {updates} updates."

    # -- seeds -----------------------------------------------------------------------------------------------------

    def follows_its_seed(self) -> str:
        """From the same grid, weights and state, one seed makes one update, and another seed another one."""
        seed = self.runs.seed
        with self.runs.at_once() as source:
            batch, begin = source.workers.collect(STEPS).batch, learned(source)
        first, drew = self._with_seed(seed, batch, begin)
        again, _ = self._with_seed(seed, batch, begin)
        other, _ = self._with_seed(seed + 1, batch, begin)
        if different(first, again):
            raise NotSo(
                "the same seed led to different weights. Draw all random numbers from self.rng, not from numpy's or torch's "
                "global generators."
            )
        if different(first, other):
            return "the same seed leads to the same weights, another one to others."
        # A replay has to be drawn from; others may have nothing to draw.
        if not drew and not issubclass(self.runs.preset.family.config, ReplayConfig):
            return "the same seed leads to the same weights; it draws nothing."
        raise NotSo(
            "two seeds drew the same. Draw all random numbers from self.rng, which follows from the run's seed."
        )

    def _with_seed(self, seed: int, batch: MultiAgentBatch, begin: dict[str, Any]) -> tuple[Any, bool]:
        """Weights after the updates, and whether the learners' own generators were asked for them."""
        with self.runs.at_once(seed=seed) as trainer:
            own = _generators(trainer)
            trainer.set_weights(begin["policies"])
            for learner, state, rng in zip(trainer.learners, begin["learners"], own, strict=True):
                learner.load_state_dict(state)
                learner.rng.bit_generator.state = (
                    rng  # the state had that of the other run, which is what is asked about
                )
            hand_over(trainer, batch)
            return trainer.get_weights(), _generators(trainer) != own

    # -- masks and absence -----------------------------------------------------------------------------------------

    def learns_with_masks(self) -> str:
        """Masks count in the update: those of the next decision where its value is looked ahead to, else the present ones."""
        if not self.runs.preset.configure().compares_actions:
            raise DoesNotApply("its updates look at actions that were played alone, and these are legal.")
        name, when = "new_legal", "of what follows a decision"
        if self.runs.preset.family.on_policy:
            name, when = "legal", "of decisions"

        def without_masks(batch: MultiAgentBatch) -> None:
            for part in getattr(batch, name):
                part[:] = True

        env = {"masked": True, "actions": "discrete"}
        masked = self.runs.learned_from(_as_it_is, env)
        free = self.runs.learned_from(without_masks, env)
        if not different(masked["policies"], free["policies"]):
            raise NotSo(f"the update is the same without the masks {when} ({name}), so it counts illegal actions.")
        return f"without the masks {when} ({name}) the update is another one."

    def ignores_the_absent(self) -> str:
        """What stands in the cells of agents that are not there changes no bit of policies and learners."""
        env = {"come_and_go": True}
        plain = self.runs.learned_from(_as_it_is, env)
        noisy = self.runs.learned_from(_add_ghosts, env)
        changed = [part for part in ("policies", "learners") if different(plain[part], noisy[part])]
        if changed:
            raise NotSo(
                f"other numbers in the cells of agents that had left led to other {' and '.join(changed)}. Look at present, "
                "alive, new_present and new_alive before using a cell."
            )
        return "noise in the cells of agents that had left changed nothing."


def _generators(trainer: Trainer) -> list[Mapping[str, Any]]:
    """Where the learners' own generators stand."""
    return [learner.rng.bit_generator.state for learner in trainer.learners]


def _as_it_is(batch: MultiAgentBatch) -> None:
    """No change."""


def _add_ghosts(batch: MultiAgentBatch) -> None:
    """Noise instead of the observations of agents that are not there, and another action of theirs."""
    rng = np.random.default_rng(0)
    gone, gone_later = ~(batch.present | batch.alive), ~(batch.new_present | batch.new_alive)
    for k, kind in enumerate(batch.task.kinds):
        for columns, cells in ((batch.obs[k], gone), (batch.new_obs[k], gone_later)):
            there = cells[:, :, kind.seats]
            columns[there] = rng.normal(size=columns[there].shape)
        batch.actions[k][gone[:, :, kind.seats]] = 1


def _arrays(trainer: Trainer) -> dict[str, Array]:
    """All arrays of numbers that the policies and learners hold, as they are now."""
    _, arrays = pack(learned(trainer))
    # Copies, as training changes arrays in place; counters and flags are no copies of what is learned.
    return {name: array.copy() for name, array in arrays.items() if array.dtype.kind == "f"}


def _copies(arrays: dict[str, Array]) -> list[list[str]]:
    """Names of arrays that are equal to the last bit; those of one number over and over (zeros) tell nothing."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name, array in arrays.items():
        if len(np.unique(array)) > 1:
            key = (array.shape, array.tobytes())
            groups.setdefault(key, []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def _left_behind(groups: list[list[str]], moved: set[str]) -> dict[str, str]:
    """Copies that have not moved, each with an array of the same beginning that has."""
    found: dict[str, str] = {}
    for names in groups:
        source = min(moved.intersection(names), key=names.index, default=None)
        if source is None:
            continue  # nothing of them has learned yet, so there is nothing to follow
        for name in names:
            if name not in moved:
                found[name] = source
    return found
