"""Hysteretic values: disappointments count less, by hand and in the climbing game."""

from __future__ import annotations

import pytest
import torch

import marl
from marl.algos.qmix.losses import td_loss

CHOSEN, TARGET = torch.tensor([2.0, 5.0, 1.0]), torch.tensor([4.0, 1.0, 1.0])
WEIGHTS = torch.tensor([1.0, 1.0, 0.5])


def test_a_row_that_turned_out_worse_counts_by_the_weight_and_a_better_one_fully() -> None:
    loss, slope = td_loss(CHOSEN, TARGET, WEIGHTS, negative_weight=0.25)
    assert float(loss) == pytest.approx((4 + 0.25 * 16 + 0) / 3)
    assert slope.tolist() == pytest.approx([2 * -2 / 3, 2 * 0.25 * 4 / 3, 0.0])


def test_with_weight_0_nothing_good_is_forgotten() -> None:
    loss, slope = td_loss(CHOSEN, TARGET, WEIGHTS, negative_weight=0.0)
    assert float(loss) == pytest.approx(4 / 3)
    assert slope.tolist() == pytest.approx([-4 / 3, 0.0, 0.0])


def test_the_weight_also_counts_where_errors_are_linear() -> None:
    loss, slope = td_loss(CHOSEN, TARGET, WEIGHTS, linear_beyond=1.0, negative_weight=0.25)
    assert float(loss) == pytest.approx((2 * 2 - 1 + 0.25 * (2 * 4 - 1)) / 3)
    assert slope.tolist() == pytest.approx([-2 / 3, 0.25 * 2 / 3, 0.0])


@pytest.mark.parametrize(
    ("weight", "a", "b", "c"), [(1.0, -19 / 3, -17 / 3, 5 / 3), (0.05, 9.5 / 1.1, 11.5 / 2.05, 5 / 1.1)]
)
def test_against_a_partner_who_explores_only_small_weights_value_the_best_action_highest(
    weight: float, a: float, b: float, c: float
) -> None:
    """Player 0 of the climbing game against uniform play: values at which gains and weighted losses are in balance."""
    rows = torch.tensor([[11.0, -30.0, 0.0], [-30.0, 7.0, 6.0], [0.0, 0.0, 5.0]])
    for payoffs, value in zip(rows, (a, b, c), strict=True):
        _, slope = td_loss(torch.full((3,), value), payoffs, torch.ones(3), negative_weight=weight)
        assert float(slope.sum()) == pytest.approx(0.0, abs=1e-5)
    assert (a > max(b, c)) == (weight < 1)


@pytest.mark.parametrize(("algo", "reached"), [("hysteretic", True), ("dqn", False)])
def test_hysteretic_values_climb_where_plain_ones_settle(algo: str, reached: bool) -> None:
    config = {
        "env_config": {"game": "climbing", "repetitions": 25}, "lr": 1e-3, "gamma": 0.9, "train_batch_size": 64,
        "learning_starts": 250, "updates_per_step": 0.2, "target_update_every": 50, "dueling": False,
        "fcnet_hiddens": [64], "fcnet_activation": "relu", "agent_id": True, "num_envs_per_worker": 8, "seed": 0,
        "timesteps_per_iteration": 800, "evaluation": {"interval": 0, "episodes": 1},
    }  # fmt: skip
    with marl.Trainer(algo, env="matrix_game", config=config) as trainer:
        for _ in range(2):
            trainer.train()
        earned = trainer.evaluate()["episode_reward_mean"]
    assert (earned == 275) == reached
