"""noisy_dqn, rainbow and softq: their losses against the papers' formulas, and what of them goes on exactly."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from marl.algos.qmix import distributional
from marl.algos.qmix.learner import QmixLearner
from marl.algos.qmix.losses import divergence, soft_value
from marl.algos.qmix.minibatch import Minibatch
from marl.data.replay import Replay
from marl.errors import ConfigError
from marl.policies.noisy import noise_of_outcomes
from marl.policies.value import ValuePolicy, noise_drawn
from tests.algos.test_value_gradients import ATOMS, MASKED, distance, doubled, modules, scores_of
from tests.algos.updates import found_in, one_update, same, small_run, weights_after

NEVER = torch.zeros(1, 0, dtype=torch.bool)  # nothing is forbidden


# -- soft values -------------------------------------------------------------------------------------------------------


def test_the_soft_value_is_the_logarithm_of_a_sum_of_exponentials_over_legal_actions() -> None:
    q = torch.tensor([[1.0, 3.0, 2.0]])
    by_hand = 0.5 * math.log(sum(math.exp(value / 0.5) for value in (1.0, 3.0, 2.0)))
    assert float(soft_value(q, q, NEVER, 0.5)) == pytest.approx(by_hand, rel=1e-6)
    legal = torch.tensor([[True, False, True]])
    by_hand = 0.5 * math.log(math.exp(1.0 / 0.5) + math.exp(2.0 / 0.5))
    assert float(soft_value(q, q, legal, 0.5)) == pytest.approx(by_hand, rel=1e-6)


def test_a_cold_soft_value_is_that_of_double_q_and_a_hot_one_pays_for_every_action() -> None:
    choosing, valuing = torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([[5.0, 7.0, 9.0]])
    assert float(soft_value(choosing, valuing, NEVER, 1e-3)) == pytest.approx(7.0)
    hot = float(soft_value(choosing, valuing, NEVER, 1e4))
    assert hot == pytest.approx(1e4 * math.log(3) + 7.0, rel=1e-5)


def test_the_soft_value_of_a_team_that_adds_up_is_that_of_its_joint_actions() -> None:
    a, b = torch.tensor([[0.3, -1.0]]), torch.tensor([[2.0, 0.5, 1.0]])
    joint = (a.unsqueeze(2) + b.unsqueeze(1)).flatten(1)
    apart = soft_value(a, a, NEVER, 0.7) + soft_value(b, b, NEVER, 0.7)
    assert float(soft_value(joint, joint, NEVER, 0.7)) == pytest.approx(float(apart), rel=1e-6)


def test_a_monotonic_mixer_refuses_soft_values_with_the_reason() -> None:
    with pytest.raises(
        ConfigError, match=r"temperature: 0.5 needs mixer: none or sum.*soft value of a team is known where"
    ):
        small_run("qmix", temperature=0.5)


def soft_policy(**explore: Any) -> ValuePolicy:
    with small_run("softq", {"masked": True}, exploration_config={"type": "SoftQ", **explore}) as trainer:
        found = trainer.policies["default_policy"]
    assert isinstance(found, ValuePolicy)
    return found


def test_softq_explores_at_its_own_temperature_unless_another_is_given() -> None:
    assert soft_policy().exploration.temperature == 0.2
    assert soft_policy(temperature=0.7).exploration.temperature == 0.7
    with small_run("dqn", exploration_config={"type": "SoftQ"}) as trainer:
        policy: Any = trainer.policies["default_policy"]
        assert policy.exploration.temperature == 1.0
        assert policy.exploration.chance_of_random() == 0.0


# -- noise in the loss -------------------------------------------------------------------------------------------------


def drawn(algo: str, **keys: Any) -> tuple[QmixLearner, Minibatch]:
    """A learner in float64 and a minibatch of it."""
    with one_update(algo, train_batch_size=24, lr=0.05, **keys) as trainer:
        trainer.train()
        (learner,) = trainer.learners
    assert isinstance(learner, QmixLearner)
    ((minibatch,),) = learner.drawing.draw(learner.teams, 1, learner.rng, learner.learner_group)
    for module in modules(learner, minibatch):
        module.double().zero_grad()
    for policy in learner.values.values():
        for layers in policy.noisy_layers:
            layers._look_up()
    return learner, doubled(minibatch)


def slow_loss(learner: QmixLearner, minibatch: Minibatch) -> Tensor:
    """The same noise again, for autograd: one network for what was seen, another one that chooses of the outcomes."""
    t, config = minibatch.t, learner.config
    (shown,) = minibatch.shown.values()
    ((policy, _, (x,)),) = shown.parts
    size = len(t)
    with noise_drawn(learner.values.values(), learner.rng):
        now = scores_of(policy, x[:size])
        with torch.no_grad(), noise_of_outcomes(policy.noisy_layers):
            choosing = scores_of(policy, x[size:])
    rows, valuing = torch.arange(size), minibatch.valuing[0][:, 0]
    legal, played = t.next.legal[0][:, 0], t.actions[0][:, 0]
    alive = config.gamma**t.elapsed * ~t.terminated
    if config.num_atoms == 1:
        best = choosing.masked_fill(~legal, -1e9).argmax(1)
        error = now[rows, played] - (t.rewards + alive * valuing[rows, best])
        return (t.weights * (error / learner.unit).square()).mean()
    means = (choosing.softmax(-1) * policy.support).sum(-1)
    best = means.masked_fill(~legal, -1e9).argmax(1)
    later = valuing[rows, best].softmax(-1)
    target = torch.zeros_like(later)
    z, gap = policy.support, float(policy.support[1] - policy.support[0])
    for i in range(size):
        for j in range(len(z)):
            moved = min(max(float(t.rewards[i] + alive[i] * z[j]), float(z[0])), float(z[-1]))
            for k in range(len(z)):
                target[i, k] += later[i, j] * max(0.0, 1 - abs(moved - float(z[k])) / gap)
    return (t.weights * -(target * now[rows, played].log_softmax(-1)).sum(-1)).mean()


@pytest.mark.parametrize(
    ("algo", "keys"),
    [("noisy_dqn", {}), ("noisy_dqn", {"dueling": False, "prioritized_replay": True}), ("rainbow", {**ATOMS})],
    ids=["noisy_dqn", "plain heads", "rainbow"],
)
def test_loss_and_gradient_of_noisy_networks_are_those_of_the_papers(algo: str, keys: dict[str, Any]) -> None:
    learner, minibatch = drawn(algo, **MASKED, **keys)
    (policy,) = learner.values.values()
    parameters = list(policy.parameters())
    state = learner.rng.bit_generator.state
    reference = slow_loss(learner, minibatch)
    expected = torch.autograd.grad(reference, parameters)
    learner.rng.bit_generator.state = state
    with torch.no_grad():
        loss, _ = learner._loss(minibatch)
    assert float(loss) == pytest.approx(float(reference.detach()), rel=1e-5)
    assert distance([p.grad for p in parameters], list(expected)) < 1e-5
    sigmas = [slope for (name, _), slope in zip(policy.named_parameters(), expected, strict=True) if "sigma" in name]
    assert len(sigmas) == 4
    assert all(float(slope.abs().sum()) > 1e-4 for slope in sigmas), "deviations are learned as well"


def test_every_update_draws_anew_what_it_sees_and_what_values_its_outcomes() -> None:
    with small_run("noisy_dqn", updates_per_step=1.0) as trainer:
        trainer.train()
        (learner,) = trainer.learners
    assert isinstance(learner, QmixLearner)
    assert learner.drawing.at_once(learner.teams, 8, learner.learner_group) == 1
    two = [learner.drawing.draw(learner.teams, 1, np.random.default_rng(3), learner.learner_group) for _ in range(2)]
    ((first,),), ((second,),) = two
    assert torch.equal(first.valuing[0], second.valuing[0]), "the same generator draws the same noise"
    (quiet,) = [learner.members.at_once(first.t.next, learner.targets)]
    assert not torch.allclose(first.valuing[0], quiet[0]), "slow copies are noisy as well"
    assert all(part.noise == [] for copy in learner.targets.values() for part in copy.noisy_layers)


# -- rainbow -----------------------------------------------------------------------------------------------------------


def test_the_divergence_is_that_of_kullback_and_leibler() -> None:
    scores, target = torch.tensor([[0.0, 1.0, -1.0]]), torch.tensor([[0.5, 0.5, 0.0]])
    chances = scores.softmax(-1)[0].tolist()
    by_hand = 0.5 * math.log(0.5 / chances[0]) + 0.5 * math.log(0.5 / chances[1])
    assert float(divergence(scores, target)) == pytest.approx(by_hand, rel=1e-6)


def test_rainbow_draws_rows_by_their_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray[Any, Any]] = []

    def noted(*given: Tensor) -> Tensor:
        found = divergence(*given)
        seen.append(found.double().numpy())
        return found

    monkeypatch.setattr(distributional, "divergence", noted)
    with one_update("rainbow", train_batch_size=16, prioritized_replay_alpha=0.5) as trainer:
        trainer.train()
        (replay,) = found_in(trainer.learners[0], Replay)
    assert replay.priorities is not None
    leaves = replay.priorities.tree[replay.priorities.size :][: len(replay)]
    raised = set(np.round(leaves[leaves != 1.0], 4))
    assert raised == set(np.round((seen[-1] + 1e-6) ** 0.5, 4))
    assert len(raised) > 8


def test_rainbow_is_all_six_and_says_which_cannot_be_taken_away() -> None:
    with small_run("rainbow") as trainer:
        config: Any = trainer.learners[0].config  # type: ignore[attr-defined]
    assert (config.double_q, config.dueling, config.prioritized_replay, config.noisy) == (True, True, True, True)
    assert (config.n_step, config.num_atoms) == (3, 51)
    with pytest.raises(ConfigError, match=r"rainbow has noisy True, not False. Use algo .*, or drop noisy"):
        small_run("rainbow", noisy=False)


# -- teams, resuming, workers ------------------------------------------------------------------------------------------


def test_policies_of_a_mixed_team_have_noise_of_their_own() -> None:
    keys = {"policy_mapping_fn": "per_agent", "noisy": True}
    quiet = weights_after("qmix", policy_mapping_fn="per_agent")
    for algo in ("vdn", "qmix"):
        weights = weights_after(algo, **keys)
        assert len(weights) > len(quiet) / 2
        assert all(np.isfinite(array).all() for array in weights)
    with small_run("qmix", **keys) as trainer:
        one, two = (policy.noisy_layers[0] for policy in trainer.policies.values())  # type: ignore[union-attr]
        with noise_drawn(trainer.policies.values(), np.random.default_rng(0)):  # type: ignore[arg-type]
            assert not torch.equal(one.noise[0].inputs, two.noise[0].inputs)


@pytest.mark.parametrize("algo", ["noisy_dqn", "rainbow", "softq"])
def test_a_run_that_was_stopped_goes_on_with_the_same_noise(algo: str, tmp_path: Path) -> None:
    with small_run(algo) as whole:
        for _ in range(4):
            whole.train()
        expected = whole.get_weights()
    with small_run(algo) as first:
        for _ in range(2):
            first.train()
        saved = first.save(tmp_path)
    with small_run(algo) as second:
        second.restore(saved)
        for _ in range(2):
            second.train()
        found = second.get_weights()
    a, b = (list(weights["default_policy"].values()) for weights in (expected, found))
    assert same(a, b)


@pytest.mark.ray
@pytest.mark.parametrize("algo", ["noisy_dqn", "softq"])
def test_ray_workers_explore_as_workers_in_process_do(algo: str) -> None:
    keys = {"num_workers": 2, "rollout_fragment_length": 4}
    assert same(weights_after(algo, pool="ray", **keys), weights_after(algo, pool="in_process", **keys))
