"""Updates of critics of actions take the gradient of the equations that they are documented by.

An update is made by the real learner in float64 with plain gradient descent, so what its networks moved by is its gradient.
The same losses are written down here by their formulas, and differentiated by autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import marl.algos.maddpg.learner
import marl.algos.sac.learner
import marl.algos.sac.values
from marl.algos.custom_loss import Loss
from marl.algos.joint_view import Actions, JointActionView
from marl.algos.maddpg.actor_critic import DeterministicActorCritic
from marl.algos.maddpg.learner import MaddpgLearner
from marl.algos.off_policy import ActorCriticLearner
from marl.algos.presets import ALGOS
from marl.algos.sac.actor_critic import SoftActorCritic
from marl.algos.sac.learner import SacLearner
from marl.algos.sac.values import Moment
from marl.algos.transitions import Transitions
from marl.policies.custom import Model
from marl.policies.deterministic import DeterministicPolicy
from marl.policies.squashed import SquashedGaussian
from marl.training.trainer import Trainer
from tests.algos.many_actions import ManyActions

LR = 0.125  # a power of two: dividing by it rounds nothing
KEYS: dict[str, Any] = {
    "optimizer": {"type": "sgd"}, "lr": LR, "tau": 0.5, "learning_starts": 1, "updates_per_step": 0.125, "buffer_size": 300,
    "train_batch_size": 24, "timesteps_per_iteration": 16, "num_envs_per_worker": 2, "fcnet_hiddens": [5, 6], "seed": 3,
    "evaluation": {"interval": 0}, "env": ManyActions,
}  # fmt: skip
DETERMINISTIC: dict[str, Any] = {"grad_clip": None, "policy_delay": 1, "actor_reg": 0.5}
PLAYED = {
    "maddpg": ["box", "free", "choice", "masked", "several", "mixed"],
    "sac": ["box", "free", "choice", "masked"],  # others are refused
}
NUMBERS = ("box", "free")


def presets() -> list[str]:
    """Those whose learners update by critics of actions, whoever registered them."""
    return [name for name in ALGOS if issubclass(ALGOS[name].family.learner_class(), ActorCriticLearner)]


@pytest.fixture
def doubles(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything that is built and computed meanwhile is float64."""
    monkeypatch.setattr(Tensor, "float", Tensor.double)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def built(algo: str, sees: str, kinds: Sequence[str] = (), **keys: Any) -> Trainer:
    """A trainer with a filled replay: one policy per kind of agents (all that the algorithm plays), two agents each."""
    kinds = kinds or PLAYED[ALGOS[algo].family.name]
    extra = DETERMINISTIC if ALGOS[algo].family.name == "maddpg" else {"initial_alpha": 0.3}
    groups = {"first": [f"{kind}_0" for kind in kinds], "second": [f"{kind}_1" for kind in kinds]}
    policies: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
    if extra is DETERMINISTIC:
        policies |= {kind: {"gumbel_temperature": 0.7} for kind in kinds if kind not in NUMBERS}
    trainer = Trainer(
        algo,
        config={
            **KEYS, **extra, "critic_sees": sees, "env_config": {"kinds": kinds}, "groups": groups,
            "policies": policies, "policy_mapping_fn": {f"{kind}_*": kind for kind in kinds}, **keys,
        },
    )  # fmt: skip
    trainer.train()
    return trainer


class Doubled(Loss):
    """Twice the algorithm's own loss, and something of the user's own."""

    def __call__(self, loss: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        assert len(batch["obs"]) == KEYS["train_batch_size"]
        return self.added(loss, self.policy)

    @staticmethod
    def added(loss: Tensor, policy: nn.Module) -> Tensor:
        return 2 * loss + 0.25 * torch.stack([(weight**2).sum() for weight in policy.parameters()]).sum()


def moved(before: nn.Module, after: nn.Module) -> list[Tensor]:
    """The gradient by which plain gradient descent went from one to the other."""
    pairs = zip(before.parameters(), after.parameters(), strict=True)
    return [(old.detach() - new.detach()) / LR for old, new in pairs]


def compare(found: Sequence[Tensor], loss: Tensor, module: nn.Module, custom: Loss | None = None) -> None:
    if custom is not None:
        loss = Doubled.added(loss, module)
    expected = torch.autograd.grad(loss, list(module.parameters()))
    assert max(float(gradient.abs().max()) for gradient in expected) > 1e-6
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)


# -- ddpg, td3, maddpg -------------------------------------------------------------------------------------------------


def straight_through(ac: DeterministicActorCritic, out: Tensor, legal: Tensor, gumbel: Tensor | None) -> Tensor:
    """Options one-hot with the gradient of ``softmax((logits + gumbel) / T)``, then coordinates, squashed if bounded."""
    columns, parts, at = ac.actor.kind.columns, [], 0
    for c in columns.choices:
        assert gumbel is not None
        here = slice(at, at + columns.sizes[c])
        logits = out[:, here]
        if legal.shape[1]:
            logits = torch.where(legal[:, here], logits, torch.tensor(-1e9))
        soft = ((logits + gumbel[:, here]) / ac.config.gumbel_temperature).softmax(1)
        hard = nn.functional.one_hot(soft.argmax(1), columns.sizes[c])
        parts.append(hard + soft - soft.detach())
        at += columns.sizes[c]
    for i, c in enumerate(columns.numbers):
        coordinate = out[:, columns.options + i]
        parts.append((torch.tanh(coordinate) if columns.bounded[c] else coordinate)[:, None])
    return torch.cat(parts, 1)


def check_deterministic(learner: MaddpgLearner, ac: DeterministicActorCritic) -> None:
    drawn = learner.rng.bit_generator.state
    t = ac.transitions(ac.sample(learner.rng))
    learner.rng.bit_generator.state = drawn  # the update will draw the same rows
    actor, critics, view = deepcopy(ac.actor), deepcopy(ac.critics), ac.view
    target = learner._target(ac, t, learner._next_actions(ac, t))

    learner._train(ac)

    q = critics(view(t.now, view.played(t)))
    compare(moved(critics, ac.critics), (t.weights[:, None] * (q - target[:, None]) ** 2).mean(0).sum(), critics)
    obs, index, legal = view.own(t.now)
    out = actor(obs, index)
    mine = straight_through(ac, out, legal, t.noise.get("gumbel"))
    climbed = ac.critics(view(t.now, view.with_own(t.now, view.played(t), mine)))[:, 0]  # after the critics' step
    compare(moved(actor, ac.actor), 0.5 * (out**2).mean() - climbed.mean(), actor, ac.custom_loss)


# -- sac ---------------------------------------------------------------------------------------------------------------


def soft_value(ac: SoftActorCritic, actor: Any, moment: Moment, alpha: float) -> tuple[Tensor, Tensor]:
    """``V`` and the entropy of ``actor``, row by row."""
    obs, index, legal = ac.view.own(moment.joint)
    params = actor(obs, index, legal)
    if actor.gaussian is None:
        p = params.softmax(1)
        surprise = -torch.log(p.clamp(min=1e-300))
        q = ac.critics(asked(ac, moment, moment.others)).min(0).values
        return (p * (q + alpha * surprise)).sum(1), (p * surprise).sum(1)
    mean, log_std = params.chunk(2, 1)
    free = mean + log_std.exp() * moment.noise
    bounded = torch.from_numpy(actor.gaussian.bounded)
    mine = torch.where(bounded, torch.tanh(free), free)
    logp = torch.distributions.Normal(mean, log_std.exp()).log_prob(free)
    logp = (logp - torch.where(bounded, torch.log(1 - torch.tanh(free) ** 2), 0.0)).sum(1)
    q = ac.critics(ac.view(moment.joint, ac.view.with_own(moment.joint, moment.others, mine))).min(0).values[:, 0]
    return q - alpha * logp, -logp


def asked(ac: SoftActorCritic, joint: Moment | Transitions, actions: Actions) -> Tensor:
    """What critics of choices see: the own action is blanked out."""
    now = joint.joint if isinstance(joint, Moment) else joint.now
    blank = torch.zeros(len(now), ac.soft.outputs)
    return ac.view(now, ac.view.with_own(now, actions, blank))


def chosen(ac: SoftActorCritic, critics: nn.Module, t: Transitions) -> Tensor:
    """``[2, N]``: values of what was done."""
    if ac.actor.gaussian is not None:
        return critics(ac.view(t.now, ac.view.played(t)))[:, :, 0]  # type: ignore[no-any-return]
    done = ac.view.of_own(t.now, t.actions[ac.view.visible.k])
    values = critics(asked(ac, t, ac.view.played(t)))
    return torch.stack([values[:, row, int(action)] for row, action in enumerate(done)], 1)


def check_soft(learner: SacLearner, ac: SoftActorCritic) -> None:
    drawn = learner.rng.bit_generator.state
    t = ac.transitions(ac.sample(learner.rng))
    before, after = learner._moment(ac, t.now), learner._moment(ac, t.next)
    learner.rng.bit_generator.state = drawn
    actor, critics = deepcopy(ac.actor), deepcopy(ac.critics)
    target, alpha, log_alpha = learner._target(ac, t, after), float(ac.alpha), float(ac.log_alpha.detach())

    learner._train(ac)

    loss = 0.5 * (t.weights * (chosen(ac, critics, t) - target) ** 2).mean(1).sum()
    compare(moved(critics, ac.critics), loss, critics)
    value, entropy = soft_value(ac, actor, before, alpha)
    compare(moved(actor, ac.actor), -value.mean(), actor, ac.custom_loss)
    wanted = alpha * (entropy - ac.soft.target_entropy(t.now, ac.config)).mean()
    # The noise of drawn actions is float32, and so is its square in the entropy.
    assert (log_alpha - float(ac.log_alpha.detach())) / LR == pytest.approx(float(wanted.detach()), abs=1e-6)


# -- all of them -------------------------------------------------------------------------------------------------------


def check(trainer: Trainer) -> int:
    """Every policy that learns; returns how many these were."""
    policies = 0
    for learner in trainer.learners:
        assert isinstance(learner, MaddpgLearner | SacLearner), f"write down the losses of {type(learner).__name__}"
        for ac in learner.actor_critics.values():
            policies += 1
            if isinstance(learner, MaddpgLearner):
                check_deterministic(learner, ac)
            else:
                check_soft(learner, ac)
    return policies


@pytest.mark.parametrize("sees", ["own", "group", "all"])
@pytest.mark.parametrize("algo", presets())
@pytest.mark.usefixtures("doubles")
def test_an_update_takes_the_gradient_that_autograd_finds(algo: str, sees: str) -> None:
    with built(algo, sees) as trainer:
        assert check(trainer) == len(PLAYED[ALGOS[algo].family.name])


class Tilted(Model):
    """No fully connected layers that we know: its gradient is autograd's."""

    def __init__(self, inputs: int, outputs: int, config: Mapping[str, Any]) -> None:
        super().__init__(inputs, outputs, config)
        self.layer = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        return torch.sin(self.layer(x)), carry


OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("maddpg", {"twin_q": True, "share_reward": True}),
    ("maddpg", {"fcnet_hiddens": []}),
    ("maddpg", {"custom_model": f"{__name__}:Tilted"}),
    ("maddpg", {"custom_loss": f"{__name__}:Doubled"}),
    ("sac", {"kinds": ["box", "free"], "free_log_std": True, "prioritized_replay": True}),
    ("sac", {"fcnet_activation": "relu", "observation_filter": "MeanStdFilter"}),
    ("sac", {"custom_model": f"{__name__}:Tilted"}),
    ("sac", {"custom_loss": f"{__name__}:Doubled"}),
]


@pytest.mark.parametrize(("algo", "keys"), OTHERS)
@pytest.mark.usefixtures("doubles")
def test_other_networks_and_losses_of_the_users_own_take_it_as_well(algo: str, keys: dict[str, Any]) -> None:
    with built(algo, "all", **keys) as trainer:
        assert check(trainer) > 0


@pytest.mark.parametrize("sees", ["own", "group", "all"])
def test_an_own_action_put_into_the_critics_input_is_what_the_view_of_it_shows(sees: str) -> None:
    with built("maddpg", sees) as trainer:
        for learner in trainer.learners:
            assert isinstance(learner, MaddpgLearner)
            for ac in learner.actor_critics.values():
                t, view = ac.transitions(ac.sample(learner.rng)), ac.view
                mine = torch.rand(len(t), ac.actor.model.outputs)
                played = view.played(t)
                for joint in (t.now, t.next):  # at outcomes some of the agents themselves have left
                    put = view.with_own_action(view(joint, played), joint, mine)
                    assert torch.equal(put, view(joint, view.with_own(joint, played, mine)))
                    own = view.by_own_action(put, joint)
                    assert torch.equal(own, mine * view._here(joint))
                assert not view._here(t.next).all()


def flipped(function: Callable[..., Any], place: int | None) -> Callable[..., Any]:
    """The same function with the wrong sign of its result, or of one of its results."""

    def wrong(*given: Any, **named: Any) -> Any:
        found = function(*given, **named)
        if place is None:
            return -found
        return *found[:place], -found[place], *found[place + 1 :]

    return wrong


SIGNS: list[tuple[str, Any, str, int | None]] = [
    ("maddpg", marl.algos.maddpg.learner, "critic_loss", 1),
    ("maddpg", marl.algos.maddpg.learner, "actor_loss", 1),
    ("maddpg", marl.algos.maddpg.learner, "actor_loss", 2),
    ("maddpg", DeterministicPolicy, "slopes", None),
    ("maddpg", JointActionView, "by_own_action", None),
    ("sac", marl.algos.sac.learner, "critic_loss", 1),
    ("sac", marl.algos.sac.learner, "temperature_loss", 1),
    ("sac", marl.algos.sac.values, "smallest", None),
    ("sac", marl.algos.sac.values, "expected_soft_value", 1),
    ("sac", SquashedGaussian, "slopes", None),
    ("sac", JointActionView, "by_own_action", None),
]


@pytest.mark.parametrize(("algo", "owner", "name", "place"), SIGNS)
@pytest.mark.usefixtures("doubles")
def test_a_slope_of_the_wrong_sign_would_be_noticed(
    algo: str, owner: Any, name: str, place: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with built(algo, "group", kinds=["box", "choice"]) as trainer:
        monkeypatch.setattr(owner, name, flipped(getattr(owner, name), place))
        with pytest.raises(AssertionError):
            check(trainer)
