"""Regularised Nash dynamics: changed rewards, advantages of actions that were not tried, forces on logits, what follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from marl.algos.rnad.learner import RnadLearner
from marl.algos.rnad.losses import action_advantages, mixed_logs, neurd_loss
from marl.algos.rnad.rows import changed_rewards, payments, with_targets
from marl.errors import ConfigError
from marl.training.trainer import Trainer

KUHN: dict[str, Any] = {
    "env": "kuhn_poker", "policy_mapping_fn": "per_agent", "fcnet_hiddens": [8], "num_envs_per_worker": 8, "gamma": 1.0,
    "train_batch_size": 64, "evaluation": {"interval": 0}, "lr": 0.05, "regularisation_every": 4,
}  # fmt: skip


def kuhn(**keys: Any) -> tuple[Trainer, RnadLearner]:
    trainer = Trainer("rnad", config={**KUHN, **keys})
    (learner,) = trainer.learners
    assert isinstance(learner, RnadLearner)
    return trainer, learner


# -- arithmetic --------------------------------------------------------------------------------------------------------


def test_advantages_of_actions_are_right_on_the_mean_over_what_might_have_been_tried() -> None:
    rng, eta = np.random.default_rng(0), 0.3
    logs = torch.from_numpy(rng.normal(size=4)).log_softmax(-1)
    regular = torch.from_numpy(rng.normal(size=4)).log_softmax(-1)
    acted = torch.from_numpy(rng.normal(size=4)).log_softmax(-1)  # another policy than the one that learns
    worth = torch.from_numpy(rng.normal(size=4))
    expected = worth - eta * (logs - regular)
    expected = expected - (logs.exp() * expected).sum()
    mean = torch.zeros(4, dtype=torch.float64)
    for taken in range(4):
        found = action_advantages(
            logs[None], regular[None], torch.tensor([taken]), worth[taken, None], (-acted[taken, None]).exp(), eta
        )
        mean += acted[taken].exp() * found[0]
    torch.testing.assert_close(mean, expected)


def test_logits_are_pushed_by_advantages_and_no_further_than_the_threshold() -> None:
    logits = torch.tensor([[0.0, 0.0, 0.0], [3.0, -3.0, 0.0], [3.0, -3.0, 0.0]], requires_grad=True)
    advantages = torch.tensor([[1.0, -2.0, 1.0], [1.0, -2.0, 1.0], [-1.0, 2.0, -1.0]])
    legal = torch.tensor([[True, True, True]]).expand(3, 3)
    neurd_loss(logits, advantages, legal, threshold=2.0, clip=100.0).sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    # Moving against the gradient pushes by the advantages, whatever the chances; they sum to 0, so centring changes nothing.
    torch.testing.assert_close(-logits.grad[0], advantages[0])
    pushed = torch.tensor([0.0, 0.0, 1.0])  # outwards of what is far out: not at all
    torch.testing.assert_close(-logits.grad[1], pushed - pushed.mean())
    torch.testing.assert_close(-logits.grad[2], advantages[2])  # and back from there: freely


def test_illegal_actions_are_neither_pushed_nor_counted() -> None:
    logits = torch.tensor([[0.5, -1e9, 0.0]], requires_grad=True)
    legal = torch.tensor([[True, False, True]])
    neurd_loss(logits, torch.tensor([[1.0, 7.0, -1.0]]), legal, 2.0, 100.0).sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    torch.testing.assert_close(-logits.grad, torch.tensor([[1.0, 0.0, -1.0]]))


def test_the_regularisation_policy_moves_from_the_older_to_the_newer_one() -> None:
    newer, older = torch.tensor([1.0]), torch.tensor([3.0])
    assert [float(mixed_logs(newer, older, share)) for share in (0.0, 0.25, 1.0)] == [3.0, 2.5, 1.0]


# -- the changed game --------------------------------------------------------------------------------------------------


def test_what_one_player_pays_the_other_one_gets() -> None:
    trainer, learner = kuhn()
    with trainer:
        for _ in range(3):
            trainer.train()
        batch = trainer.workers.collect(16).batch
        paid = payments(batch, learner.regularised, 0.5)
        assert np.abs(paid[batch.present]).max() > 0.01
        assert (paid[~batch.present] == 0).all()
        changed = changed_rewards(batch, paid)
        np.testing.assert_allclose(changed.sum(axis=2), batch.rewards.sum(axis=2), atol=1e-5)
        np.testing.assert_allclose(changed[..., 0], batch.rewards[..., 0] - paid[..., 0] + paid[..., 1], atol=1e-6)
        # By hand, at one decision: the log ratio of the chances of what was done.
        t, e, a = (int(i) for i in np.argwhere(batch.present)[5])
        name = batch.policy_ids[batch.policy_index[t, e, a]]
        k = batch.task.kind_of(a)
        column = a - batch.task.kinds[k].first_seat
        obs, legal, actions = (c[k][t, e, column][None] for c in (batch.obs, batch.legal, batch.actions))
        shown = torch.from_numpy(obs), torch.tensor([column]), torch.from_numpy(legal)
        now, _ = learner.actors[name](*shown)
        ratio = (now.log_softmax(-1) - learner.regularised[name].logs(*shown))[0, int(actions[0])]
        assert paid[t, e, a] == pytest.approx(0.5 * float(ratio.detach()), abs=1e-5)


def test_what_a_player_pays_for_an_action_is_no_part_of_what_followed_it() -> None:
    """The second player of Kuhn poker decides once in a game: its own payment moves its value alone, the other's moves both."""
    trainer, learner = kuhn()
    with trainer:
        trainer.train()
        batch = trainer.workers.collect(24).batch
        name = "player_1"
        parts = name, batch, learner.configs[name], learner.regularised[name], learner.slow_critics[name]

        def rows(paid: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
            found = with_targets(parts[0], parts[1], paid, *parts[2:])
            return found["advantages"], found["value_targets"]

        nothing = np.zeros_like(batch.rewards)
        own, others = nothing.copy(), nothing.copy()
        own[..., 1][batch.present[..., 1]] = 0.25
        others[..., 0][batch.present[..., 0]] = 0.25
        advantages, targets = rows(nothing)
        np.testing.assert_allclose(rows(own)[0], advantages, atol=1e-6)
        np.testing.assert_allclose(rows(own)[1], targets - 0.25, atol=1e-6)
        gained = rows(others)[0] - advantages  # 0.25 where the first player decided once more
        assert set(np.round(gained, 5).tolist()) == {0.0, 0.25}


def test_what_older_weights_played_is_worth_what_it_is_however_rarely_it_is_played_now() -> None:
    """With `collection: overlap` the policy has moved on. The loss divides by the chance of the older one, and by no other."""
    trainer, learner = kuhn()
    with trainer:
        trainer.train()
        batch = trainer.workers.collect(24).batch
        name = "player_1"  # decides once in a game, so that nothing that follows is weighed either
        parts = learner.configs[name], learner.regularised[name], learner.slow_critics[name]
        paid = np.where(batch.present, np.float32(0.25), np.float32(0.0))
        before = with_targets(name, batch, paid, *parts)["advantages"]
        rng = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in learner.actors[name].parameters():
                parameter += 0.5 * torch.randn(parameter.shape, generator=rng)
        after = with_targets(name, batch, paid, *parts)["advantages"]
        np.testing.assert_allclose(after, before, atol=1e-5)


def test_the_regularisation_policy_is_renewed_by_the_slow_copy_after_its_time() -> None:
    trainer, learner = kuhn(target_tau=0.5)
    with trainer:
        regular = learner.regularised["player_0"]
        newer, shares = regular.newer.get_weights(), []
        for _ in range(4):
            shares.append(regular.share)
            slow, actor = regular.slow.get_weights(), None
            trainer.train()
            actor = regular.actor.get_weights()
            for key, moved in regular.slow.get_weights().items():
                np.testing.assert_allclose(moved, 0.5 * (slow[key] + actor[key]), atol=1e-6)
        assert shares == [0.0, 0.5, 1.0, 1.0]
        for key, weight in regular.newer.get_weights().items():
            np.testing.assert_array_equal(weight, regular.slow.get_weights()[key])
            np.testing.assert_array_equal(regular.older.get_weights()[key], newer[key])


def test_without_regularisation_nothing_is_paid() -> None:
    trainer, learner = kuhn(regularisation_coeff=0.0)
    with trainer:
        trainer.train()
        batch = trainer.workers.collect(8).batch
        np.testing.assert_array_equal(changed_rewards(batch, payments(batch, learner.regularised, 0.0)), batch.rewards)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"env": "Pendulum-v1", "policy_mapping_fn": "shared"}, "rnad learns one choice among a few actions"),
        ({"use_lstm": True}, "has a memory, but rnad learns from single moments. Drop use_lstm"),
    ],
)
def test_what_it_cannot_learn_is_refused_before_anything_is_played(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Trainer("rnad", config={**KUHN, **keys})


def test_the_other_one_is_drawn_to_a_better_answer() -> None:
    """In a game with an action that is always best it is found, and given up actions come back."""
    keys = {**KUHN, "env": "matrix_game", "env_config": {"game": "prisoners_dilemma"}, "regularisation_coeff": 0.05}
    with Trainer("rnad", config=keys) as trainer:
        for _ in range(30):
            trainer.train()
        for policy in trainer.policies.values():
            inputs = trainer.workers.collect(4).batch
            chances = policy.action_distribution({"obs": inputs.obs[0][0, :, 0]}).params.softmax(-1)  # type: ignore[attr-defined]
            assert float(chances[:, 1].min()) > 0.8
