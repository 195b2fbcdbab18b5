"""Examples of loops of one's own run and show what they say."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from examples import (
    centralized_critic,
    look_inside,
    train_with_checkpoints,
    two_step_game,
    two_trainers,
    worker_workflow,
)
from marl.scenario.load import load_scenario
from marl.training.trainer import Trainer

pytestmark = pytest.mark.slow

SCENARIOS = Path(__file__).parents[1] / "scenarios"


def test_a_restored_policy_is_played_by_hand(tmp_path: Path) -> None:
    assert train_with_checkpoints.main(12, str(tmp_path)) > 100  # random play: 22
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"checkpoint_{i:06d}" for i in (4, 8, 12)]


def test_a_hand_written_gradient_step_learns_from_the_workers() -> None:
    first, last = worker_workflow.main(40)
    assert last > 2 * first


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.ray)])
def test_every_worker_holds_the_same_weights_and_a_policy_tells_its_chances_and_value(
    workers: int, request: pytest.FixtureRequest
) -> None:
    if workers:
        request.getfixturevalue("ray_session")
    seen = look_inside.stochastic(workers)
    assert len(seen["sizes"]) == workers + 1
    assert len({*seen["sizes"]}) == 1
    assert seen["logp"].shape == seen["value"].shape == (seen["rows"],)
    assert (seen["logp"] < 0).all()


def test_action_values_have_a_row_per_observation_and_atoms_where_asked_for() -> None:
    assert look_inside.values() == {"q_values": (1, 2), "state_value": (1, 1)}
    assert look_inside.values(num_atoms=11)["distributions"] == (1, 2, 11)


def test_two_trainers_improve_a_policy_each() -> None:
    rewards = two_trainers.main(12)
    assert min(rewards["by_ppo"], rewards["by_dqn"]) > 35  # random play: 22


def test_the_critic_sees_both_agents_and_the_team_earns_8() -> None:
    reward, actor, critic = centralized_critic.main()
    assert reward == 8.0
    assert critic > actor


@pytest.mark.parametrize(("algo", "least"), [("PG", 7.0), ("MADDPG", 7.0), ("QMIX", 8.0), ("MAPPO", 8.0)])
def test_the_two_step_game_is_played_at_least_safely(algo: str, least: float) -> None:
    assert two_step_game.main(algo) >= least


def test_prisoners_learn_the_only_equilibrium() -> None:
    scenario = load_scenario(SCENARIOS / "prisoners_dilemma.yaml")
    with Trainer(scenario=scenario) as trainer:
        for _ in range(40):
            result = trainer.train()
        earned = trainer.evaluate()["policy_reward_mean"]
    assert result["exploitability"]["nash_conv"] < 0.1
    assert all(math.isclose(reward, 1.0) for reward in earned.values())  # both defect; 3 each if both did not
