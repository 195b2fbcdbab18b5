"""Gradients of action values that are written out by hand, against autograd in float64: every mixer, heads, losses, teams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import marl
from marl.algos.qmix import learner as learner_module
from marl.algos.qmix import minibatch as minibatch_module
from marl.algos.qmix.learner import QmixLearner
from marl.algos.qmix.losses import best_legal, moved_atoms, projected
from marl.algos.qmix.minibatch import Minibatch
from marl.algos.qmix.mixers import MIXERS, MonotonicMixer, SumMixer
from marl.policies.networks import seeded
from marl.policies.value import ValuePolicy
from tests.algos.updates import one_update, small_run, weights_after

CLOSE = 1e-10
MEMBERS = {"none": 1}  # 3 for all other mixers
PRESET = {"none": "dqn", "sum": "vdn", "monotonic": "qmix"}  # that has this mixer


def distance(found: list[Tensor | None], expected: list[Tensor | None]) -> float:
    """The largest difference; what has no gradient has a gradient of zeros."""
    largest = 0.0
    for a, b in zip(found, expected, strict=True):
        if a is None and b is None:
            continue
        gap = (0.0 if a is None else a.detach()) - (0.0 if b is None else b.detach())
        assert isinstance(gap, Tensor)
        largest = max(largest, float(gap.abs().max()))
    return largest


# -- mixers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "hyper"), list(product(MIXERS, [0, 5])))
@pytest.mark.parametrize("embed", [4, 20])  # below and above the width at which layers are computed the other way round
def test_a_mixer_takes_slopes_back_as_autograd_does(name: str, hyper: int, embed: int) -> None:
    assert mixer_distance(name, hyper, embed) < CLOSE


def mixer_distance(name: str, hyper: int = 0, embed: int = 4) -> float:
    members, generator = MEMBERS.get(name, 3), seeded(1)
    mixer = MIXERS[name](members, 6, embed, generator, hyper).double()
    values = torch.randn(11, members, generator=generator, dtype=torch.float64).requires_grad_()
    state = torch.randn(11, 6, generator=generator, dtype=torch.float64)
    slopes = torch.randn(11, generator=generator, dtype=torch.float64)
    parameters = list(mixer.parameters())
    expected = torch.autograd.grad((mixer(values, state) * slopes).sum(), [values, *parameters])
    with torch.no_grad():
        mixed, tape = mixer.run(values, state)
        by_values = mixer.pull(tape, slopes)
        assert distance([mixed], [mixer(values, state)]) < CLOSE
    return distance([by_values, *[p.grad for p in parameters]], list(expected))


# -- whole losses ------------------------------------------------------------------------------------------------------


def doubled(thing: Any) -> Any:
    """The same in float64, at any depth."""
    if isinstance(thing, Tensor):
        return thing.double() if thing.is_floating_point() else thing
    if is_dataclass(thing) and type(thing).__name__ in ("Minibatch", "Transitions", "JointObs", "Shown"):
        return replace(thing, **{f.name: doubled(getattr(thing, f.name)) for f in fields(thing)})  # type: ignore[type-var]
    if isinstance(thing, dict):
        return {name: doubled(part) for name, part in thing.items()}
    if isinstance(thing, list | tuple):
        return type(thing)(doubled(part) for part in thing)
    return thing


@contextmanager
def drawn(algo: str, **keys: Any) -> Iterator[tuple[QmixLearner, Minibatch]]:
    """A learner in float64 whose networks and slow copies differ, and the second of two minibatches drawn at once."""
    with one_update(algo, train_batch_size=24, lr=0.05, **keys) as trainer:
        trainer.train()
        (learner,) = trainer.learners
        assert isinstance(learner, QmixLearner)
        many = 1 if learner.config.prioritized_replay else 2
        minibatch = learner.drawing.draw(learner.teams, many, learner.rng, learner.learner_group)[-1][0]
        for module in modules(learner, minibatch):
            module.double().zero_grad()
        minibatch = doubled(minibatch)
        # Drawn in float32, and the slow copy is not learned from: only the digits that are missing are put in here.
        exact = minibatch.team.target_mixer.weights(minibatch.t.next.state)
        assert distance(list(minibatch.mixing), list(exact)) < 1e-5
        yield learner, replace(minibatch, mixing=tuple(part.detach() for part in exact))


def modules(learner: QmixLearner, minibatch: Minibatch) -> list[nn.Module]:
    return [*learner.values.values(), minibatch.team.mixer, minibatch.team.target_mixer]


def scores_of(policy: ValuePolicy, x: Tensor) -> Tensor:
    out = policy.model.network(x)
    if policy.num_atoms > 1:
        out = out.reshape(len(out), -1, policy.num_atoms)
    if policy.unit is not None:
        out = out * policy.unit
    if not policy.dueling:
        return out
    return out[:, :1] + out[:, 1:] - out[:, 1:].mean(1, keepdim=True)


def values_by_kind(learner: QmixLearner, minibatch: Minibatch) -> dict[int, list[Tensor]]:
    """Per kind what autograd knows of the values now and, with double Q, later: ``[N, members, ...]`` each."""
    found = {}
    for k, shown in minibatch.shown.items():
        whole = torch.zeros(shown.rows, *shown.shape, dtype=torch.float64)
        for policy, rows, (x,) in shown.parts:
            here = torch.arange(shown.rows) if rows is None else rows
            whole = whole.index_copy(0, here, scores_of(policy, x))
        parts = whole.view(2 if learner.config.double_q else 1, -1, shown.members, *shown.shape)
        found[k] = list(parts)
    return found


def slow_loss(learner: QmixLearner, minibatch: Minibatch) -> Tensor:
    """The formulas of the papers, for autograd."""
    t, config = minibatch.t, learner.config
    found = values_by_kind(learner, minibatch)
    chosen, later = [], []
    for k, (now, *following) in found.items():
        choosing = following[0].detach() if following else minibatch.valuing[k]
        if config.num_atoms > 1:
            return cross_entropy(learner, minibatch, now, choosing)
        chosen.append(now.gather(2, t.actions[k].unsqueeze(2)).squeeze(2))
        best = best_legal(choosing, t.next.legal[k]).unsqueeze(2)
        later.append(minibatch.valuing[k].gather(2, best).squeeze(2))
    q = minibatch.team.mixer(torch.cat(chosen, 1) * t.now.present, t.now.state)
    with torch.no_grad():
        next_q = minibatch.team.target_mixer(torch.cat(later, 1) * t.next.present, t.next.state)
    unit = learner.unit
    assert (unit != 1.0) == config.normalizes
    error = (q - (t.rewards + config.gamma**t.elapsed * ~t.terminated * next_q)) / unit
    squared = error.square()
    if config.huber_delta is not None:
        linear = 2 * config.huber_delta * error.abs() - config.huber_delta**2
        assert 0 < int((error.abs() > config.huber_delta).sum()) < len(error)
        squared = torch.where(error.abs() > config.huber_delta, linear, squared)
    if config.negative_error_weight != 1.0:
        assert 0 < int((error > 0).sum()) < len(error)
        squared = torch.where(error > 0, config.negative_error_weight * squared, squared)
    return (t.weights * squared).mean()


def cross_entropy(learner: QmixLearner, minibatch: Minibatch, now: Tensor, choosing: Tensor) -> Tensor:
    t, rows = minibatch.t, torch.arange(len(now))
    support = next(iter(learner.values.values())).support
    with torch.no_grad():
        best = best_legal((choosing[:, 0].softmax(-1) * support).sum(-1), t.next.legal[0][:, 0])
        moved = moved_atoms(t.rewards, support, learner.config.gamma**t.elapsed * ~t.terminated)
        target = projected(minibatch.valuing[0][rows, 0, best].softmax(-1), moved, support)
    log_chances = now[rows, 0, t.actions[0][:, 0]].log_softmax(-1)
    return (t.weights * -(target * log_chances).sum(-1)).mean()


def loss_distance(learner: QmixLearner, minibatch: Minibatch) -> float:
    """How far the learner's own loss and gradient are from autograd's."""
    parameters = list(dict.fromkeys(p for module in modules(learner, minibatch) for p in module.parameters()))
    reference = slow_loss(learner, minibatch)
    expected = torch.autograd.grad(reference, parameters, allow_unused=True)
    assert sum(float(slope.abs().sum()) for slope in expected if slope is not None) > 1e-3
    with torch.no_grad():
        loss, _ = learner._loss(minibatch)
    return max(abs(float(loss) - float(reference.detach())), distance([p.grad for p in parameters], list(expected)))


MASKED = {"env_config": {"masked": True}}
ATOMS = {"num_atoms": 7, "v_min": -3.0, "v_max": 3.0}
SEPARATE = {"policy_mapping_fn": "per_agent"}
CASES: list[tuple[str, dict[str, Any]]] = [
    *[(PRESET[m], {"dueling": d, "double_q": q, **MASKED}) for m, d, q in product(MIXERS, [True, False], [True, False])],
    *[("dqn", {**ATOMS, "dueling": d, "double_q": q, **MASKED}) for d, q in product([True, False], [True, False])],
    ("dqn", {"huber_delta": 0.1}),
    ("hysteretic", {"huber_delta": 0.1, "prioritized_replay": True}),
    ("qmix", {"negative_error_weight": 0.3}),
    ("qmix", {"normalize_rewards": False, "normalize_state": False}),
    ("qmix", {"huber_delta": 2.0, "hypernet_embed": 5}),
    ("dqn", {"prioritized_replay": True, "n_step": 3}),
    ("qmix", {"prioritized_replay": True}),
    ("vdn", {"env_config": {"come_and_go": True}}),
    ("qmix", {"env_config": {"come_and_go": True}}),
    ("qmix", {"env_config": {"two_kinds": True}, **SEPARATE}),
    ("qmix", {**SEPARATE, "dueling": True}),
    ("qmix", {**SEPARATE, "policies": {"agent_0": {}, "agent_1": {}}, "shared": {"encoder": "common"}}),
    ("vdn", {"fcnet_activation": "relu", "fcnet_hiddens": [20, 6], "observation_filter": "MeanStdFilter"}),
]  # fmt: skip


@pytest.mark.parametrize(("algo", "keys"), CASES, ids=[f"{algo}-{i}" for i, (algo, _) in enumerate(CASES)])
def test_the_gradient_of_a_loss_is_the_one_that_autograd_finds(algo: str, keys: dict[str, Any]) -> None:
    with drawn(algo, **keys) as (learner, minibatch):
        assert loss_distance(learner, minibatch) < CLOSE


Pull = Callable[..., Any]
WRONG: dict[str, tuple[Any, str, Callable[[Pull], Pull]]] = {
    "a mixer": (MonotonicMixer, "pull", lambda right: lambda self, tape, slopes: -right(self, tape, slopes)),
    "a sum": (SumMixer, "pull", lambda right: lambda self, tape, slopes: -right(self, tape, slopes)),
    "a head": (ValuePolicy, "pull", lambda right: lambda self, tape, slopes: right(self, tape, -slopes)),
    "a loss": (learner_module, "td_loss", lambda right: lambda *given: (right(*given)[0], -right(*given)[1])),
}


@pytest.mark.parametrize("wrong", list(WRONG))
def test_a_wrong_sign_would_be_noticed(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, spoil = WRONG[wrong]
    monkeypatch.setattr(owner, name, spoil(getattr(owner, name)))
    algo = "vdn" if owner is SumMixer else "qmix"
    with drawn(algo) as (learner, minibatch):
        assert loss_distance(learner, minibatch) > 1e-3


# -- what goes by autograd behind the same verbs -----------------------------------------------------------------------


class Traced(marl.Model):
    """A layer of a user's own."""

    def __init__(self, inputs: int, outputs: int, config: Any) -> None:
        super().__init__(inputs, outputs, config)
        self.layer = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        return self.layer(x), carry


@pytest.mark.parametrize("algo", ["dqn", "vdn", "qmix"])
def test_a_model_of_a_users_own_learns_what_the_same_layer_of_ours_learns(algo: str) -> None:
    marl.register_model("traced", Traced)
    with (
        one_update(algo, custom_model="traced", double_q=True) as theirs,
        one_update(algo, fcnet_hiddens=[], double_q=True) as ours,
    ):
        plain: Any = ours.learners[0]
        mine, other = ours.policies["default_policy"], theirs.policies["default_policy"]
        for copy in (mine, plain.targets["default_policy"]):
            copy.load_state_dict(dict(zip(copy.state_dict(), other.state_dict().values(), strict=True)))
        for trainer in (ours, theirs):
            trainer.workers.local_worker().set_weights(trainer.get_weights())  # both play alike
            trainer.train()
        for a, b in zip(mine.parameters(), other.parameters(), strict=True):
            assert torch.allclose(a, b, atol=1e-6)
            assert not torch.equal(a, torch.zeros_like(a))


# -- losses of users ---------------------------------------------------------------------------------------------------


class Twice(marl.Loss):
    """Doubles the loss, and adds a term with a gradient of its own."""

    def __call__(self, loss: Tensor, batch: Any) -> Tensor:
        weight = next(self.policy.parameters())
        return loss * 2 + self.config["more"] * weight.sum()


@pytest.mark.parametrize("algo", ["dqn", "vdn", "qmix"])
@pytest.mark.parametrize("memory", [{}, {"use_gru": True, "lstm_cell_size": 4, "max_seq_len": 4}])
def test_a_users_loss_has_the_gradient_of_what_it_was_given(algo: str, memory: dict[str, Any]) -> None:
    marl.register_loss("twice", Twice)
    sgd = {"optimizer": {"type": "sgd"}, "grad_clip": None, **memory}
    found = {}
    for more in (None, 0.0, 0.5):
        custom = {} if more is None else {"custom_loss": "twice", "custom_loss_config": {"more": more}}
        with one_update(algo, **sgd, **custom) as trainer:
            before = [parameter.detach().clone() for parameter in trainer.policies["default_policy"].parameters()]
            stats = trainer.train()["info"]["learner"]["default_policy"]["learner_stats"]
            after = trainer.policies["default_policy"].parameters()
            found[more] = stats, [a.detach() - b for a, b in zip(after, before, strict=True)]
    (plain, moved), (double, twice), (_, added) = found.values()
    assert double["td_loss"] == pytest.approx(2 * plain["td_loss"], rel=1e-5)
    assert double["grad_norm"] == pytest.approx(2 * plain["grad_norm"], rel=1e-4)
    for once, two, more in zip(moved, twice, added, strict=True):
        assert torch.allclose(two, 2 * once, atol=1e-6)
        extra = torch.zeros_like(once)
        if once is moved[0]:
            extra -= 0.01 * 0.5
        assert torch.allclose(more, two + extra, atol=1e-6)


# -- drawing for several updates at once -------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [{}, SEPARATE, {"double_q": False}], ids=["shared", "separate", "single"])
@pytest.mark.parametrize("algo", ["dqn", "qmix"])
def test_drawing_for_several_updates_at_once_changes_nothing(
    algo: str, keys: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    many = {"updates_per_step": 0.25, "target_update_every": 3, **keys}
    together = weights_after(algo, **many)
    with small_run(algo, **many) as trainer:
        trainer.train()
        learner: Any = trainer.learners[0]
        assert learner.drawing.at_once(learner.teams, 3, learner.learner_group) == 3
    monkeypatch.setattr(minibatch_module, "MOST_BYTES", 0)
    one_by_one = weights_after(algo, **many)
    for a, b in zip(together, one_by_one, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
