"""What trials of a population may change, and into what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml

from marl.errors import ConfigError
from marl.tune.config import TuneConfig, tune_config
from marl.tune.mutations import Mutation, explore
from marl.tune.plan import plan_functions, plan_scenarios
from marl.tune.search import grid_search
from tests.processes import ROOT
from tests.tune.searches import SMALL, small

LR = Mutation("algo.lr", "loguniform", (1e-4, 1e-1))


def population(**changes: Any) -> TuneConfig:
    keys = {"scheduler": "pbt", "mutations": {"lr": {"loguniform": [1e-4, 1e-1]}}, "perturbation_interval": 1}
    return TuneConfig.model_validate({**keys, **changes})


def test_a_number_is_changed_by_a_factor_and_stays_within_its_ends() -> None:
    assert LR.perturbed(0.01, 1.2) == pytest.approx(0.012)
    assert LR.perturbed(0.01, 0.8) == pytest.approx(0.008)
    assert LR.perturbed(0.09, 1.2) == 0.1
    assert LR.perturbed(0.00011, 0.8) == 0.0001


def test_whole_numbers_stay_whole_and_always_move() -> None:
    epochs = Mutation("algo.num_sgd_iter", "randint", (1, 11))
    assert epochs.perturbed(5, 1.2) == 6
    assert epochs.perturbed(2, 1.2) == 3  # 2.4 would be 2 again
    assert epochs.perturbed(2, 0.8) == 1
    assert epochs.perturbed(1, 0.8) == 1
    assert epochs.perturbed(10, 1.2) == 10
    assert epochs.perturbed(5, 1.0) == 5


def test_of_a_choice_the_neighbour_is_taken() -> None:
    gamma = Mutation("algo.gamma", "choice", (0.9, 0.95, 0.99))
    assert gamma.perturbed(0.95, 1.2) == 0.99
    assert gamma.perturbed(0.95, 0.8) == 0.9
    assert gamma.perturbed(0.99, 1.2) == 0.99
    assert gamma.perturbed(0.95, 1.0) == 0.95
    assert gamma.perturbed(0.5, 1.2) == 0.9  # the scenario began with another value


def test_a_value_that_is_no_number_is_drawn_anew() -> None:
    entropy = Mutation("algo.target_entropy", "uniform", (-2.0, -0.5))
    changed = explore([entropy], {"algo.target_entropy": "auto"}, [0.8, 1.2], 0.0, [3])["algo.target_entropy"]
    assert -2.0 <= changed <= -0.5


def test_values_are_drawn_anew_as_often_as_the_resample_probability_says() -> None:
    near, anew = {0.008, 0.012}, 0
    for luck in range(400):
        (value,) = explore([LR], {"algo.lr": 0.01}, [0.8, 1.2], 0.25, [luck]).values()
        assert 1e-4 <= value <= 1e-1
        anew += round(value, 9) not in near
    assert 70 <= anew <= 130  # four standard deviations around 100
    always = [explore([LR], {"algo.lr": 0.01}, [0.8], 1.0, [luck])["algo.lr"] for luck in range(200)]
    assert np.median(np.log10(always)) == pytest.approx(-2.5, abs=0.3)  # evenly over orders of magnitude
    never = {explore([LR], {"algo.lr": 0.01}, [0.8], 0.0, [luck])["algo.lr"] for luck in range(20)}
    assert never == {0.008}


def test_what_becomes_of_a_key_does_not_depend_on_the_other_keys() -> None:
    gamma = Mutation("algo.gamma", "uniform", (0.9, 0.99))
    values = {"algo.lr": 0.01, "algo.gamma": 0.95}
    for luck in range(20):
        both = explore([gamma, LR], values, [0.8, 1.2], 0.5, [3, luck])
        assert both["algo.lr"] == explore([LR], values, [0.8, 1.2], 0.5, [3, luck])["algo.lr"]


def test_a_trial_begins_with_its_own_value_the_scenarios_or_a_draw() -> None:
    mutations = {
        "lr": {"loguniform": [1e-4, 1e-1]},
        "algo.gamma": {"uniform": [0.8, 0.99]},
        "entropy_coeff": {"uniform": [0.0, 0.1]},
    }
    plan = plan_scenarios(small(gamma=0.9), population(mutations=mutations, num_samples=2), "here")
    assert [trial.params["lr"] for trial in plan.trials] == [0.001, 0.01, 0.1] * 2
    assert {trial.params["gamma"] for trial in plan.trials} == {0.9}
    drawn = {trial.params["entropy_coeff"] for trial in plan.trials}
    assert len(drawn) == 6
    assert all(0 <= value <= 0.1 for value in drawn)
    # A seed for each: a copy that saw the episodes of its source again would learn nothing of its own.
    assert [trial.config["seed"] for trial in plan.trials] == [0, 1, 2, 3, 4, 5]


def test_the_population_of_the_docs_has_eight_trials_of_other_rates_and_seeds() -> None:
    keys = yaml.safe_load((ROOT / "examples" / "population.yaml").read_text())
    options = tune_config(keys.pop("tune"), "file")
    plan = plan_scenarios(keys, options, "file")
    assert len({trial.params["lr"] for trial in plan.trials}) == 8
    assert [trial.config["seed"] for trial in plan.trials] == list(range(8))
    assert plan.population is not None
    assert [plan.population.decider.end_of(number) for number in (0, 8)] == [4000, 36000]


BAD: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"mutations": {}}, "scheduler: pbt needs mutations"),
    ({}, {"mutations": {"lr": {"grid_search": [1, 2]}}}, "as one of choice, uniform, loguniform, randint"),
    ({}, {"mutations": {"lr": {"loguniform": [0.1, 0.01]}}}, "the smaller one first"),
    ({}, {"mutations": {"lr": {"loguniform": [0.001, 0.1], "choice": [1]}}}, "as one of choice"),
    ({}, {"mutations": {"lr": {"uniform": [0.0, float("inf")]}}}, "expected two numbers"),
    ({}, {"mutations": {"lr": {"choice": 3}}}, "expected a list of values"),
    ({}, {"mutations": {"target_entropy": {"choice": ["auto", -1.0]}}}, "expected numbers"),
    # They decide how the state of a learner begins: later they would mean nothing.
    ({}, {"mutations": {"sigma0": {"uniform": [0.1, 0.9]}}}, "sigma0 cannot change while a trial trains"),
    ({}, {"mutations": {"initial_value": {"uniform": [0.1, 0.9]}}}, "initial_value cannot change while a trial trains"),
    ({}, {"mutations": {"gama": {"uniform": [0.1, 0.9]}}}, "Did you mean 'gamma'"),
    ({}, {"mutations": {"fcnet_hiddens": {"choice": [[8], [16]]}}}, "fcnet_hiddens cannot change while a trial trains"),
    ({}, {"mutations": {"num_envs_per_worker": {"randint": [1, 4]}}}, "cannot change while a trial trains"),
    ({}, {"mutations": {"lr": {"uniform": [-1, 0.1]}}}, "lr = -1 (int) does not fit"),  # no run could be made with it
    ({"lr": 0.1}, {"mutations": {"num_sgd_iter": {"uniform": [1, 4]}}, "num_samples": 2}, "num_sgd_iter"),  # 2.7 epochs
    ({"gamma": grid_search([0.9, 0.99])}, {}, "gamma is searched, but not among the mutations"),
    ({"lr_schedule": [[0, 0.1], [10, 0.01]], "lr": 0.1}, {"num_samples": 2}, "lr_schedule decides what it is"),
    ({"lr": 0.1}, {}, "pbt needs at least two trials"),
    ({}, {"perturbation_interval": 3}, "so none would ever copy another one"),
    ({}, {"perturbation_interval": None, "time_attr": "episodes_total"}, "Give perturbation_interval, in episodes_total"),
    ({}, {"time_attr": "episode_reward_mean"}, "expected one of timesteps_total, training_iteration"),
    ({}, {"quantile_fraction": 0.6}, "quantile_fraction"),
    ({}, {"max_failures": 1}, "max_failures: 1 needs scheduler: fifo or asha"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "options", "told"), BAD)
def test_what_cannot_be_is_refused_before_any_trial_starts(
    keys: dict[str, Any], options: dict[str, Any], told: str
) -> None:
    given = {"scheduler": "pbt", "mutations": {"lr": {"loguniform": [1e-4, 1e-1]}}, "perturbation_interval": 1}
    with pytest.raises(ConfigError) as refused:
        plan_scenarios(small(**keys), tune_config({**given, **options}, "here"), "here")
    assert told in str(refused.value)


def test_a_function_of_the_users_own_cannot_be_copied() -> None:
    with pytest.raises(ConfigError, match="a training function of your own does its own training"):
        plan_functions(lambda config, reporter: None, {}, {}, population())


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        ([], "scheduler: schedule needs schedule"),
        ([{"at": 2, "values": {"lr": 0.1}}, {"at": 2, "values": {"lr": 0.2}}], "expected growing times"),
        ([{"at": 1, "values": {"env": "CartPole-v1"}}], "env cannot change while a trial trains"),
        ([{"at": 1, "values": {"lr": -1.0}}], "lr"),
        ([{"at": 1, "values": {}}], "values"),
    ],
)
def test_a_schedule_that_cannot_be_followed_is_refused(schedule: list[Any], told: str) -> None:
    keys = {**SMALL, "lr": 0.01, "stop": {"training_iteration": 3}}
    with pytest.raises(ConfigError) as refused:
        plan_scenarios(keys, tune_config({"scheduler": "schedule", "schedule": schedule}, "here"), "here")
    assert told in str(refused.value)


def test_a_policys_own_key_can_be_mutated() -> None:
    keys = {
        **SMALL,
        "stop": {"training_iteration": 2},
        "multiagent": {"policies": {"a": {"lr": 0.5}, "b": {}}, "policy_mapping_fn": {"agent_0": "a", "agent_1": "b"}},
    }
    options = population(mutations={"policies.a.lr": {"loguniform": [1e-4, 1.0]}}, num_samples=2)
    plan = plan_scenarios(keys, options, "here")
    assert plan.population is not None
    assert plan.population.names == {"multiagent.policies.a.lr": "lr"}
    assert [trial.params["lr"] for trial in plan.trials] == [0.5, 0.5]
