"""The numbers that an update reports, and what critics say of decisions, against loops that know the grid alone."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

from marl.algos.learner import Learner
from marl.algos.maddpg.learner import MaddpgLearner
from marl.algos.qmix.learner import QmixLearner
from marl.algos.sac.learner import SacLearner
from marl.data.batch import MultiAgentBatch
from marl.testing.state_compare import NoLuck
from tests.algos.slow_targets import (
    GAMMA,
    ActionValues,
    _critics,
    _encoded,
    _view,
    cells,
    deterministic_errors,
    single_errors,
    soft_errors,
    summed,
    team_errors,
    with_absences,
)
from tests.algos.updates import one_update

ROWS = 60  # decisions of a grid with absences
COORDINATES, MASKED = {"env_config": {"actions": "box"}}, {"env_config": {"masked": True}}


def learner_and_batch(algo: str, rows: int, **keys: Any) -> tuple[Learner, MultiAgentBatch]:
    """A learner whose next update looks at every decision of the batch exactly once."""
    once = {"train_batch_size": rows, "n_step": 1, "gamma": GAMMA, "full_td_error": True, "updates_per_step": 1 / 32}
    with one_update(algo, **{**keys, **once}) as trainer:
        batch = with_absences(trainer.workers.collect(8).batch)
        learner = trainer.learners[0]
    learner.rng = NoLuck(np.random.PCG64(0))
    return learner, batch


def moved(module: torch.nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator))


@pytest.mark.parametrize(("algo", "rows"), [("dqn", ROWS), ("vdn", 32)])
def test_values_and_errors_of_an_update_are_reported_as_they_were_before_it(algo: str, rows: int) -> None:
    learner, batch = learner_and_batch(algo, rows, double_q=True, **MASKED)
    assert isinstance(learner, QmixLearner)
    moved(learner.values["default_policy"], 1)
    moved(learner.targets["default_policy"], 2)
    ahead = deepcopy(learner)
    ahead.remember(batch)  # from now on it counts in the unit of these rewards
    unit = ahead.reward_unit.value
    assert unit != 1.0
    online, target = ahead.values["default_policy"], ahead.targets["default_policy"]
    known = ActionValues(online, batch), ActionValues(target, batch)
    played = {(t, e, a): float(known[0].before[t, e, a][int(batch.actions[0][t, e, a])]) for t, e, a in cells(batch)}
    if algo == "dqn":
        errors, q = single_errors(*known, batch, True), list(played.values())
    else:
        errors = team_errors(*known, batch, True, (summed, summed))
        decided = np.argwhere(batch.present.any(axis=2)).tolist()
        q = [sum(played.get((t, e, a), 0.0) for a in range(2)) for t, e in decided]
    told = learner.learn(batch)["default_policy"]
    expected = {
        "td_loss": np.mean(np.square(np.array(errors) / unit)), "mean_td_error": np.mean(errors), "mean_q": np.mean(q), "min_q": min(q),
        "max_q": max(q), "cur_lr": 0.01,
    }  # fmt: skip
    assert {name: told[name] for name in expected} == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert learner.counters["num_steps_trained"] == rows == len(errors)
    assert learner.counters["num_agent_steps_trained"] == ROWS


def test_a_deterministic_actor_reports_its_critics_errors_and_what_it_climbs() -> None:
    keys = {**COORDINATES, "actor_reg": 0.25, "lr": 1e-9}
    learner, batch = learner_and_batch("ddpg", ROWS, **keys)
    assert isinstance(learner, MaddpgLearner)
    pupil = learner.actor_critics["default_policy"]
    for seed, module in enumerate([pupil.actor, pupil.critics, pupil.target_actor, pupil.target_critics]):
        moved(module, seed)
    errors = deterministic_errors(pupil, batch)
    values, climbed, squares = [], [], []
    with torch.no_grad():
        for t, e, a in cells(batch):
            seen, alone = batch.obs[0][t, e], [True] * 2
            done = [_encoded(batch.actions[0][t, e, a], batch)] * 2
            values.append(float(pupil.critics.networks[0](_view(pupil, seen, done, alone, [a], a))))
            out = pupil.actor(torch.from_numpy(seen[a][None]), torch.tensor([a]))[0]
            squares.append(float(out.square().mean()))
            own = [torch.tanh(out).tolist()] * 2
            climbed.append(float(pupil.critics.networks[0](_view(pupil, seen, own, alone, [a], a))))
    judged = learner.value_function("default_policy", batch)
    assert sorted(judged.tolist()) == pytest.approx(sorted(values), rel=1e-4, abs=1e-5)
    told = learner.learn(batch)["default_policy"]
    expected = {
        "critic_loss": np.mean(np.square(errors)), "mean_td_error": np.mean(errors), "mean_q": np.mean(values),
        "actor_loss": 0.25 * np.mean(squares) - np.mean(climbed), "cur_actor_lr": 1e-9, "cur_critic_lr": 1e-9,
    }  # fmt: skip
    assert {name: told[name] for name in expected} == pytest.approx(expected, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("keys", [COORDINATES, MASKED], ids=["coordinates", "choices"])
def test_soft_critics_report_both_of_them_and_judge_by_the_more_careful_one(keys: dict[str, Any]) -> None:
    learner, batch = learner_and_batch("sac", ROWS, **keys)
    assert isinstance(learner, SacLearner)
    pupil = learner.actor_critics["default_policy"]
    moved(pupil.critics, 1)
    moved(pupil.target_critics, 2)
    errors = soft_errors(pupil, batch)
    with torch.no_grad():
        both = [
            _critics(pupil, pupil.critics, batch.obs[0][t, e], batch.actions[0][t, e, a], batch, a)
            for t, e, a in cells(batch)
        ]
    judged = learner.value_function("default_policy", batch)
    assert sorted(judged.tolist()) == pytest.approx(sorted(map(min, both)), rel=1e-4, abs=1e-5)
    alpha = float(pupil.alpha)
    told = learner.learn(batch)["default_policy"]
    assert told["mean_td_error"] == pytest.approx(np.mean(errors), rel=1e-3)
    assert told["mean_q"] == pytest.approx(np.mean(both), rel=1e-3, abs=1e-4)
    assert told["alpha"] == pytest.approx(alpha, rel=0.05)
    assert told["critic_loss"] >= np.mean(np.square(errors)) * (1 - 1e-4)  # sum of two halves of mean squares
    assert learner.counters["num_steps_trained"] == learner.counters["num_agent_steps_trained"] == ROWS
