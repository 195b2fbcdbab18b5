"""What decisions should have been worth, in every family with slow copies, against a loop that knows the grid alone."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

from marl.algos.learner import Learner
from marl.algos.maddpg.learner import MaddpgLearner
from marl.algos.nfsp.learner import NfspLearner
from marl.algos.presets import ALGOS
from marl.algos.qmix.learner import QmixLearner
from marl.algos.sac.learner import SacLearner
from marl.data.batch import MultiAgentBatch
from marl.testing.state_compare import NoLuck
from tests.algos.slow_targets import (
    GAMMA,
    ActionValues,
    Monotonic,
    deterministic_errors,
    single_errors,
    soft_errors,
    summed,
    team_errors,
    with_absences,
)
from tests.algos.updates import one_update

MEMORY = {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 4}
ATOMS = {"num_atoms": 41, "v_min": -100.0, "v_max": 100.0}  # wide enough to lose nothing at its ends
STATELESS = {"env": "tests.algos.slow_targets:Stateless"}
MASKED, COORDINATES = {"env_config": {"masked": True}}, {"env_config": {"actions": "box"}}
ALONE, TEAM = 60, 32  # rows of a grid with absences
RUNS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "dqn": ("dqn", ALONE, MASKED),
    "iql": ("iql", ALONE, MASKED),
    "hysteretic": ("hysteretic", ALONE, MASKED),
    "apex": ("apex", ALONE, MASKED),
    "nfsp": ("nfsp", ALONE, MASKED),
    "vdn": ("vdn", TEAM, MASKED),
    "qmix": ("qmix", TEAM, MASKED),
    "qmix without a state": ("qmix", TEAM, {**MASKED, **STATELESS}),
    "dqn with a memory": ("dqn", 64, {**MASKED, **MEMORY}),
    "qmix with a memory": ("qmix", TEAM, {**MASKED, **MEMORY}),
    "dqn with atoms": ("dqn", ALONE, {**MASKED, **ATOMS}),
    "noisy_dqn": ("noisy_dqn", ALONE, MASKED),  # a generator without luck draws no noise: the means are left
    "noisy_dqn with a memory": ("noisy_dqn", 64, {**MASKED, **MEMORY}),
    "rainbow": ("rainbow", ALONE, {**MASKED, **ATOMS}),
    "softq": ("softq", ALONE, {**MASKED, "temperature": 1.5}),
    "softq with a memory": ("softq", 64, {**MASKED, **MEMORY, "temperature": 1.5}),
    "vdn with soft values": ("vdn", TEAM, {**MASKED, "temperature": 1.5}),
}
FIXED = {"rainbow": {"double_q": True}}  # keys that cannot be changed
ACTORS: dict[str, tuple[str, dict[str, Any]]] = {
    f"{algo} with {what}": (algo, keys)
    for algo in ("ddpg", "td3", "maddpg", "apex_ddpg", "sac")
    for what, keys in (("choices", MASKED), ("coordinates", COORDINATES))
}


def disturbed(module: torch.nn.Module, seed: int) -> None:
    """Weights that prefer other actions than those they were made from."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator))


def all_at_once(algo: str, rows: int, **keys: Any) -> tuple[Learner, MultiAgentBatch]:
    """A learner whose next update looks at every decision of the batch exactly once."""
    once = {"train_batch_size": rows, "n_step": 1, "gamma": GAMMA, "full_td_error": True, "updates_per_step": 1 / 32}
    with one_update(algo, **{**keys, **once}) as trainer:
        batch = with_absences(trainer.workers.collect(8).batch)
        learner = trainer.learners[0]
    learner.rng = NoLuck(np.random.PCG64(0))
    return learner, batch


def listed(learner: Learner, batch: MultiAgentBatch) -> list[float]:
    """The errors that the learner itself found, smallest first."""
    learner.learn(batch)
    assert learner.counters["num_updates"] == 1
    return sorted(learner.td_errors["default_policy"].tolist())


@pytest.mark.parametrize("double", [True, False], ids=["double", "single"])
@pytest.mark.parametrize("run", list(RUNS))
def test_next_values_are_those_of_the_slow_copy_for_the_best_legal_action_of_whoever_is_there(
    run: str, double: bool
) -> None:
    algo, rows, keys = RUNS[run]
    if FIXED.get(algo, {}).get("double_q", double) != double:
        pytest.skip(f"{algo} is double")
    learner, batch = all_at_once(algo, rows, double_q=double, **keys)
    values = learner.best if isinstance(learner, NfspLearner) else learner
    assert isinstance(values, QmixLearner)
    disturbed(values.values["default_policy"], 1)
    disturbed(values.targets["default_policy"], 2)
    disturbed(values.teams[0].mixer, 3)
    disturbed(values.teams[0].target_mixer, 4)
    ahead = deepcopy(values)
    ahead.remember(batch)  # from now on it counts in the unit of these rewards, and knows how states are distributed
    online, target = ahead.values["default_policy"], ahead.targets["default_policy"]
    known = ActionValues(online, batch), ActionValues(target, batch)
    if algo in ("vdn", "qmix"):
        team = ahead.teams[0]
        mixers = (summed, summed) if algo == "vdn" else (Monotonic(team.mixer), Monotonic(team.target_mixer))
        expected = team_errors(*known, batch, double, mixers, values.config.temperature)
    else:
        expected = single_errors(*known, batch, double, values.config.temperature)
    assert listed(learner, batch) == pytest.approx(sorted(expected), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("run", list(ACTORS))
def test_critics_of_actions_ask_slow_copies_what_legal_actions_are_worth_later(run: str) -> None:
    algo, keys = ACTORS[run]
    learner, batch = all_at_once(algo, ALONE, **keys)
    assert isinstance(learner, MaddpgLearner | SacLearner)
    pupil = learner.actor_critics["default_policy"]
    if isinstance(learner, MaddpgLearner):
        copies = [pupil.actor, pupil.critics, pupil.target_actor, pupil.target_critics]
    else:
        copies = [pupil.critics, pupil.target_critics]
    for seed, module in enumerate(copies):
        disturbed(module, seed)
    expected = (deterministic_errors if isinstance(learner, MaddpgLearner) else soft_errors)(pupil, batch)
    assert listed(learner, batch) == pytest.approx(sorted(expected), rel=1e-3, abs=1e-4)


def test_every_preset_with_slow_copies_is_looked_at_here() -> None:
    slow = [a for a in ALGOS if {"tau", "target_update_every"} & set(ALGOS[a].family.config.model_fields)]
    # masac is sac whose critics see more: the errors of a critic of one agent's own view are worked out here.
    assert set(slow) - {"masac"} == {algo for algo, *_ in (*RUNS.values(), *ACTORS.values())}
