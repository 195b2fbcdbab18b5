"""Updates in rare combinations: short rounds, policies that are almost alike, classes of users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

import marl
from marl.algos.central_critic import stacked
from marl.algos.central_critic.actor_critic import Outputs, Slopes
from marl.algos.central_critic.learner import CentralCriticLearner, Numbers
from marl.algos.central_critic.train_batch import Minibatch
from marl.algos.qmix.learner import QmixLearner
from marl.algos.qmix.values import Shown
from marl.algos.together import in_stack
from marl.data.task import AgentID, AnySpace, PolicyID
from marl.envs.base import MultiAgentEnv, StepResult
from marl.policies.distributions import Categorical, Distribution
from marl.training.trainer import Trainer
from tests.algos.updates import small_run

HERE = "tests.algos.test_learning_corners"
APART: dict[str, Any] = {"multiagent": {"policy_mapping_fn": "per_agent"}}
WITNESSED: dict[str, Any] = {"env": "tests.algos.witnessed:Witnessed"}
TWO: dict[str, Any] = {"agents": 2, "together": True}


def assert_same_weights(one: Trainer, other: Trainer) -> None:
    for name, weights in one.get_weights().items():
        for part, array in weights.items():
            np.testing.assert_allclose(other.get_weights()[name][part], array, rtol=0, atol=2e-6)


# -- short rounds ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sees", ["group", "all", "state"])
def test_joint_critics_learn_from_rounds_of_a_single_step(sees: str) -> None:
    keys = {"critic_sees": sees, "rollout_fragment_length": 1, "num_envs_per_worker": 32}
    with small_run("mappo", TWO, **WITNESSED, **keys) as run:
        assert run.train()["info"]["learner"]


# -- policies that are almost alike ------------------------------------------------------------------------------------


class Coded(MultiAgentEnv):
    """Two agents whose observations have equal widths and other meanings; ``coded``: choices, else bytes."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.possible_agents = ("a", "b")
        self.rng = np.random.default_rng(0)
        shown: dict[AgentID, AnySpace] = {
            "a": spaces.MultiDiscrete([2, 4]),
            "b": spaces.MultiDiscrete([4, 2]),
        }
        if not config["coded"]:
            shown = {"a": spaces.Box(0, 255, (2,), np.uint8), "b": spaces.Box(0, 3, (2,), np.uint8)}
        self.shown = shown

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self.shown[agent]

    def action_space(self, agent: AgentID) -> AnySpace:
        return spaces.Discrete(2)

    def _obs(self) -> dict[AgentID, Any]:
        found: dict[AgentID, Any] = {}
        for name, space in self.shown.items():
            high = space.nvec if isinstance(space, spaces.MultiDiscrete) else space.high.astype(int) + 1  # type: ignore[attr-defined]
            found[name] = self.rng.integers(0, high).astype(space.dtype)
        return found

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Any:
        self.rng, self.t = np.random.default_rng(seed), 0
        return self._obs(), {}

    def step(self, actions: dict[AgentID, Any]) -> StepResult:
        self.t += 1
        paid = {name: float(self.rng.normal() + action) for name, action in actions.items()}
        return StepResult(self._obs(), paid, {}, dict.fromkeys(self.possible_agents, self.t == 6), {})


@pytest.mark.parametrize("coded", [True, False])
def test_observations_of_one_width_with_other_meanings_are_each_read_by_their_own_policy(
    coded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: dict[str, Any] = {"env": f"{HERE}:Coded", "num_sgd_iter": 1, **APART}
    with small_run("ppo", {"coded": coded}, **keys) as joined:
        joined.train()
    monkeypatch.setattr(stacked, "can_be_stacked", lambda learner, name: False)
    with small_run("ppo", {"coded": coded}, **keys) as alone:
        alone.train()
    assert_same_weights(alone, joined)


class Counting(marl.Preprocessor):
    """Numbers of its own that are not learned: each is built with another one."""

    built = 0

    def __init__(self, space: AnySpace, config: Mapping[str, Any]) -> None:
        super().__init__(space, config)
        self.size = 3
        Counting.built += 1
        self.register_buffer("factor", torch.tensor(float(Counting.built)))

    def forward(self, obs: Tensor) -> Tensor:
        return obs.float() * self.factor  # type: ignore[operator]


def test_a_preprocessor_with_numbers_of_its_own_reads_its_own_policys_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: dict[str, Any] = {**WITNESSED, "num_sgd_iter": 1, "custom_preprocessor": f"{HERE}:Counting", **APART}
    Counting.built = 0
    with small_run("ppo", TWO, **keys) as joined:
        joined.train()
    monkeypatch.setattr(stacked, "can_be_stacked", lambda learner, name: False)
    Counting.built = 0
    with small_run("ppo", TWO, **keys) as alone:
        alone.train()
    assert_same_weights(alone, joined)


class Inverse(marl.Preprocessor):
    """Has no answer for zeros, which its env never shows."""

    size = 3

    def forward(self, obs: Tensor) -> Tensor:
        return 1 / obs.float()


def test_rows_that_only_fill_up_a_stack_are_such_as_the_env_has_shown() -> None:
    keys: dict[str, Any] = {**WITNESSED, "sgd_minibatch_size": 20, "custom_preprocessor": f"{HERE}:Inverse"}
    with in_stack(True), small_run("ppo", TWO, **keys) as run:
        run.train()
        assert np.isfinite(run.last_metrics["default_policy"]["grad_norm"])


def test_a_schedule_of_the_entropy_bonus_goes_by_each_policys_own_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {**WITNESSED, "num_sgd_iter": 1, "entropy_coeff_schedule": [[0, 5.0], [96, 0.0]], **APART}

    def late_start() -> Trainer:
        """The second policy is frozen while the first one learns for two iterations."""
        run = small_run("ppo", TWO, **keys)
        run.set_policies_to_train(["agent_0"])
        run.train()
        run.train()
        run.set_policies_to_train(["agent_0", "agent_1"])
        run.train()
        return run

    with late_start() as joined:
        pass
    monkeypatch.setattr(stacked, "can_be_stacked", lambda learner, name: False)
    with late_start() as alone:
        pass
    coefficients = [row["entropy_coeff"] for row in alone.last_metrics.values()]
    assert len(set(coefficients)) == 2
    assert_same_weights(alone, joined)


# -- classes of users --------------------------------------------------------------------------------------------------


class Counted(CentralCriticLearner):
    """Knows how often it added a gradient."""

    like = "ppo"
    seen = 0

    def _add_gradient(self, name: PolicyID, minibatch: Minibatch) -> Numbers:
        type(self).seen += 1
        return super()._add_gradient(name, minibatch)


class Curious(CentralCriticLearner):
    """Its loss looks at all columns."""

    like = "ppo"
    seen = 0

    def _loss(self, name: PolicyID, outputs: Outputs, minibatch: Minibatch) -> tuple[Numbers, Slopes]:
        type(self).seen += len(minibatch.data["rewards"]) + len(minibatch.data["values"])
        return super()._loss(name, outputs, minibatch)


@pytest.mark.parametrize("learner", [Counted, Curious])
def test_a_learner_of_ones_own_is_asked_also_where_policies_have_one_shape(learner: Any) -> None:
    learner.seen = 0
    keys = {
        "fcnet_hiddens": [4],
        "num_envs_per_worker": 4,
        "timesteps_per_iteration": 32,
        "evaluation": {"interval": 0},
    }
    algo = {"train_batch_size": 32, "num_sgd_iter": 1, "sgd_minibatch_size": 32}
    config = {**keys, "env_config": TWO, "algo": algo, **APART}
    with Trainer(f"{HERE}:{learner.__name__}", env=WITNESSED["env"], config=config) as run:
        run.train()
    assert learner.seen


class Certain(Categorical):
    """Says that its entropy does not depend on anything."""

    def __init__(self, space: AnySpace) -> None:
        assert isinstance(space, spaces.Discrete)
        super().__init__(int(space.n))

    def entropy(self, params: Tensor) -> Tensor:
        return torch.ones(len(params))


class Linear(Distribution):
    """Log probabilities are the numbers themselves, added up: their slopes are one number, seen many times."""

    size = 4

    def __init__(self, space: AnySpace) -> None:
        del space

    def sample(self, params: Any, rng: np.random.Generator, explore: bool) -> Any:
        return rng.integers(0, 4, len(params)), params.sum(axis=1)

    def logp(self, params: Tensor, actions: Tensor) -> Tensor:
        return params.sum(-1)

    def entropy(self, params: Tensor) -> Tensor:
        return torch.ones(len(params))

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        return (old - new).sum(-1)


@pytest.mark.parametrize("distribution", ["Certain", "Linear"])
@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_distributions_with_simple_slopes_are_learned_from(algo: str, distribution: str) -> None:
    with small_run(algo, TWO, **WITNESSED, custom_action_dist=f"{HERE}:{distribution}", entropy_coeff=0.1) as run:
        before = run.get_weights()["default_policy"]["model.network.weights.0"].copy()
        run.train()
        assert not np.array_equal(before, run.get_weights()["default_policy"]["model.network.weights.0"])


class Warm:
    """A mix-in: all chances at twice the temperature."""

    def logp(self, params: Tensor, actions: Tensor) -> Tensor:
        return Categorical(params.shape[-1]).logp(params / 2, actions)


class WarmCategorical(Warm, Categorical):
    """Takes its formula from a class that is no distribution."""


def test_a_formula_that_comes_from_a_mix_in_is_the_one_that_is_measured() -> None:
    params, actions = torch.tensor([[1.0, -2.0, 0.5]]), torch.tensor([1])
    family = WarmCategorical(3)
    measured = family.measure(params, actions)
    torch.testing.assert_close(measured.logp, family.logp(params, actions))
    leaf = params.clone().requires_grad_()
    family.logp(leaf, actions).sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(measured.slopes(torch.ones(1), 0.0), leaf.grad)


class NeverEmpty(marl.Model):
    """Refuses to look at nothing, as a layer does that takes means over its rows."""

    def __init__(self, inputs: int, outputs: int, config: Mapping[str, Any]) -> None:
        super().__init__(inputs, outputs, config)
        self.layer = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        if not len(x):
            raise ValueError("no rows")
        return self.layer(x), carry


@pytest.mark.parametrize("double_q", [True, False])
def test_a_custom_model_of_action_values_is_never_asked_about_no_rows(double_q: bool) -> None:
    with small_run("dqn", TWO, **WITNESSED, custom_model=f"{HERE}:NeverEmpty", double_q=double_q) as run:
        run.train()
        assert run.last_metrics


# -- other devices -----------------------------------------------------------------------------------------------------


class Elsewhere(Tensor):
    """A tensor that is not in the main memory: numpy cannot look at it before it is brought there."""

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert device tensor to numpy. Use Tensor.cpu() first.")

    def cpu(self, *args: Any, **keys: Any) -> Tensor:
        return self.as_subclass(Tensor)


def test_values_on_another_device_are_brought_back_before_numpy_looks_at_them() -> None:
    with small_run("dqn", TWO, **WITNESSED, prioritized_replay=True) as run:
        (learner,) = run.learners
        assert isinstance(learner, QmixLearner)
        compare = learner._loss

        def elsewhere(*given: Any) -> tuple[Tensor, Tensor]:
            loss, values = compare(*given)
            return loss, values.as_subclass(Elsewhere)

        learner._loss = elsewhere  # type: ignore[method-assign]
        run.train()
        assert run.last_metrics["default_policy"]["mean_td_error"] > 0


def test_values_where_nobody_plays_are_on_the_device_of_the_learner() -> None:
    device = torch.device("meta")
    values, runs = Shown(members=2, rows=6, shape=(4,), parts=[], device=device).run(3)
    assert (values.shape, values.device, runs) == ((6, 4), device, [])
