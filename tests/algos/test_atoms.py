"""Distributions of returns (C51): by hand, by a slow loop, and learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import marl
from marl.algos.qmix.distributional import compare_distributions
from marl.algos.qmix.learner import QmixLearner
from marl.algos.qmix.losses import discounts, distribution_loss, moved_atoms, projected
from marl.data.batch import SampleBatch
from marl.errors import ConfigError

SUPPORT = torch.tensor([0.0, 1.0, 2.0])
SMALL: dict[str, Any] = {
    "fcnet_hiddens": [8], "evaluation": {"interval": 0}, "learning_starts": 16, "train_batch_size": 16,
    "timesteps_per_iteration": 60, "num_envs_per_worker": 2,
}  # fmt: skip
ATOMS: dict[str, Any] = {"num_atoms": 11, "v_min": -5.0, "v_max": 20.0}


def test_returns_between_two_atoms_are_shared_out_by_distance() -> None:
    chances = torch.tensor([[0.2, 0.3, 0.5]]).repeat(4, 1)
    rewards, elapsed = torch.tensor([1.0, 1.0, 5.0, 1.0]), torch.tensor([1, 1, 1, 2])
    discount = discounts(elapsed, torch.tensor([False, True, False, False]), gamma=0.5)
    moved = moved_atoms(rewards, SUPPORT, discount)
    # r + gamma z: 1, 1.5, 2; then 1 alone, as the episode is over; then 5, 5.5, 6, cut to 2; with gamma^2: 1, 1.25, 1.5
    assert moved.tolist() == [[1.0, 1.5, 2.0], [1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [1.0, 1.25, 1.5]]
    expected = [
        [0.0, 0.2 + 0.3 / 2, 0.3 / 2 + 0.5],
        [0.0, 1.0, 0.0],
        [0.0, 0.0, 1.0],
        [0.0, 0.2 + 0.3 * 0.75 + 0.5 / 2, 0.3 * 0.25 + 0.5 / 2],
    ]
    torch.testing.assert_close(projected(chances, moved, SUPPORT), torch.tensor(expected))


def test_the_loss_is_the_weighted_cross_entropy() -> None:
    log_chances = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]))
    target = torch.tensor([[0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    expected = (1.0 * -np.log(0.25) + 3.0 * -np.log(0.8)) / 2
    assert float(distribution_loss(log_chances, target, torch.tensor([1.0, 3.0]))[0]) == pytest.approx(expected)


def slow_loss(rows: SampleBatch, online: Any, target: Any, gamma: float) -> float:
    """The paper's algorithm 1, atom by atom, with double Q."""
    z = online.support.tolist()
    gap, total = z[1] - z[0], 0.0
    index = torch.from_numpy(rows["agent_index.0"][:, 0])
    with torch.no_grad():
        p = online.log_chances(torch.from_numpy(rows["obs.0"][:, 0]), index).exp().numpy()
        new = torch.from_numpy(rows["new_obs.0"][:, 0])
        best = online.values(new, index).argmax(1).tolist()
        p_new = target.log_chances(new, index).exp().numpy()
    for row in range(len(rows)):
        wanted = np.zeros(len(z))
        for j, atom in enumerate(z):
            goes_on = 0.0 if rows["terminateds"][row] else gamma ** int(rows["elapsed"][row])
            place = (min(max(float(rows["rewards"][row]) + goes_on * atom, z[0]), z[-1]) - z[0]) / gap
            low = int(np.floor(place))
            share = place - low
            wanted[low] += p_new[row, best[row], j] * (1 - share)
            if share > 0:
                wanted[low + 1] += p_new[row, best[row], j] * share
        total += -(wanted * np.log(p[row, rows["actions.0"][row, 0]])).sum() * rows["weights"][row]
    return total / len(rows)


@pytest.mark.parametrize("dueling", [True, False])
def test_the_learners_loss_is_that_of_the_papers_loop(dueling: bool) -> None:
    with marl.Trainer("dqn", env="CartPole-v1", config={**SMALL, **ATOMS, "dueling": dueling, "n_step": 3}) as trainer:
        trainer.train()
        learner: Any = trainer.learners[0]
        assert isinstance(learner, QmixLearner)
        ((minibatch,),) = learner.drawing.draw(learner.teams, 1, np.random.default_rng(0), learner.learner_group)
        rows = minibatch.rows()
        online, target = learner.values["default_policy"], learner.targets["default_policy"]
        scores, choosing, _ = learner._online(minibatch)
        found = compare_distributions(minibatch, scores, choosing, online, "error")
        means, wanted, loss = found.chosen, found.target, found.loss
        assert float(loss) == pytest.approx(slow_loss(rows, online, target, learner.config.gamma), rel=1e-4)
        values = online.values(torch.from_numpy(rows["obs.0"][:, 0]), torch.from_numpy(rows["agent_index.0"][:, 0]))
        chosen = values.gather(1, torch.from_numpy(rows["actions.0"])).squeeze(1)
        torch.testing.assert_close(means, chosen.detach())
        assert wanted.min() >= -5.0


class Lottery(gym.Env[Any, Any]):
    """One step: action 0 pays -1 or 1 with equal chances, action 1 pays a half."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> Any:
        reward = 0.5 if action == 1 else float(self.np_random.choice([-1.0, 1.0]))
        return np.ones(1, np.float32), reward, True, False, {}


def test_a_risky_action_has_two_likely_returns_and_a_sure_one_has_one(tmp_path: Path) -> None:
    explore = {"type": "EpsilonGreedy", "initial_epsilon": 1.0, "final_epsilon": 1.0, "epsilon_timesteps": 1}
    keys = {
        **SMALL, "num_atoms": 5, "v_min": -1.0, "v_max": 1.0, "exploration_config": explore, "lr": 0.005, "updates_per_step": 1,
        "timesteps_per_iteration": 600, "train_batch_size": 64, "target_update_every": 20,
    }  # fmt: skip
    with marl.Trainer("dqn", env=Lottery, config=keys) as trainer:
        trainer.train()
        policy: Any = trainer.get_policy()
        rows = trainer.workers.collect(1).batch.for_policy("default_policy")
        found = policy.q_value_distributions(rows)[0]
        assert policy.support.tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
        np.testing.assert_allclose(found[0].numpy(), [0.5, 0, 0, 0, 0.5], atol=0.1)
        np.testing.assert_allclose(found[1].numpy(), [0, 0, 0, 1, 0], atol=0.05)
        np.testing.assert_allclose(policy.q_values(rows)[0].numpy(), [0.0, 0.5], atol=0.1)
        assert trainer.compute_action(np.ones(1, np.float32)) == 1
        trainer.save(tmp_path / "c")
    with marl.Trainer("dqn", env=Lottery, config=keys) as again:
        again.restore(tmp_path / "c")
        again_policy: Any = again.get_policy()
        assert torch.equal(again_policy.q_value_distributions(rows)[0], found)


@pytest.mark.parametrize(("keys", "atoms"), [({}, 1), (ATOMS, 11)])
def test_values_and_their_distributions_have_one_row_per_observation(keys: dict[str, Any], atoms: int) -> None:
    with marl.Trainer("dqn", env="CartPole-v1", config={**SMALL, **keys}) as trainer:
        policy: Any = trainer.get_policy()
        rows = trainer.workers.collect(1).batch.for_policy("default_policy").rows(slice(0, 1))
        shapes = [
            tuple(look(rows).shape) for look in (policy.q_values, policy.q_value_distributions, policy.state_value)
        ]
        assert shapes == [(1, 2), (1, 2, atoms), (1, 1)]
        torch.testing.assert_close(policy.q_value_distributions(rows).sum(-1), torch.ones(1, 2))


@pytest.mark.parametrize(
    ("algo", "keys", "text"),
    [
        ("dqn", {"v_min": 0.0}, "v_min: 0 needs num_atoms above 1, but num_atoms is 1. Set num_atoms, or drop v_min"),
        ("dqn", {"num_atoms": 5, "v_min": 3.0, "v_max": 3.0}, "v_min 3 has to be below v_max 3"),
        ("dqn", {"num_atoms": 5, "huber_delta": 1.0}, "huber_delta: 1 needs num_atoms: 1, but num_atoms is 5"),
        ("qmix", {"num_atoms": 5}, "a mixer takes values, not distributions"),
        ("dqn", {"num_atoms": 5, "use_lstm": True}, "has a memory"),
    ],
)
def test_what_distributions_cannot_do_is_refused(algo: str, keys: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        marl.Trainer(algo, env="two_step_game", config={**SMALL, **keys})
    assert text in str(caught.value)
