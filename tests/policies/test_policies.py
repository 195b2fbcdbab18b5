"""Distributions, masks, exploration and scripted policies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from marl.data.action_units import to_env
from marl.data.actions import columns_of
from marl.data.task import AgentType
from marl.errors import ConfigError, PolicyError, SpaceMismatchError
from marl.policies.build import build_policy
from marl.policies.config import ExplorationConfig, ModelConfig, PolicySpec, ScriptedConfig
from marl.policies.distributions import Categorical, DiagGaussian, MultiCategorical, race
from marl.policies.exploration import over_values, sampling
from marl.policies.policy import Decision, Inputs, Policy
from marl.policies.stochastic import Chances
from marl.rollout.config import RolloutConfig

OBS = spaces.Box(-1, 1, (3,), np.float32)


def kind(action: Any, masked: bool = False, obs: Any = OBS) -> AgentType:
    return AgentType("agent", ("a_0", "a_1"), obs, action, masked)


def inputs(rows: int, legal: Any = None, width: int = 3) -> Inputs:
    rng = np.random.default_rng(0)
    mask = np.ones((rows, 0), bool) if legal is None else np.tile(np.array(legal, bool), (rows, 1))
    return Inputs(rng.normal(size=(rows, width)).astype(np.float32), mask, np.zeros(rows, np.int64))


def act(policy: Policy, rows: int, explore: bool = True, legal: Any = None, seed: int = 0) -> Decision:
    carry = np.zeros((rows, policy.carry_size), np.float32)
    return policy.act(inputs(rows, legal), carry, np.random.default_rng(seed), explore=explore)


@pytest.mark.parametrize(
    ("ours", "torchs", "size", "action"),
    [
        (Categorical(4), lambda p: torch.distributions.Categorical(logits=p), 4, torch.tensor([1, 3])),
        (
            DiagGaussian(2),
            lambda p: torch.distributions.Independent(torch.distributions.Normal(p[:, :2], p[:, 2:].exp()), 1),
            4,
            torch.randn(2, 2),
        ),
    ],
)
def test_our_formulas_equal_torch_distributions(ours: Any, torchs: Any, size: int, action: Any) -> None:
    torch.manual_seed(0)
    p, q = torch.randn(2, size), torch.randn(2, size)
    assert torch.allclose(ours.logp(p, action), torchs(p).log_prob(action), atol=1e-5)
    assert torch.allclose(ours.entropy(p), torchs(p).entropy(), atol=1e-5)
    assert torch.allclose(ours.kl(p, q), torch.distributions.kl_divergence(torchs(p), torchs(q)), atol=1e-5)


def test_several_choices_are_the_sum_of_single_ones() -> None:
    both, a, b = MultiCategorical([2, 3]), Categorical(2), Categorical(3)
    p, q = torch.randn(4, 5), torch.randn(4, 5)
    actions = torch.tensor([[0, 2], [1, 0], [1, 1], [0, 0]])
    assert torch.allclose(both.logp(p, actions), a.logp(p[:, :2], actions[:, 0]) + b.logp(p[:, 2:], actions[:, 1]))
    assert torch.allclose(both.entropy(p), a.entropy(p[:, :2]) + b.entropy(p[:, 2:]))
    assert torch.allclose(both.kl(p, q), a.kl(p[:, :2], q[:, :2]) + b.kl(p[:, 2:], q[:, 2:]), atol=1e-6)


@pytest.mark.parametrize("distribution", [Categorical(3), MultiCategorical([2, 3]), DiagGaussian(2)])
def test_the_log_probability_while_acting_is_the_one_while_learning(distribution: Any) -> None:
    params = np.random.default_rng(0).normal(size=(50, distribution.size)).astype(np.float32)
    actions, logp = distribution.sample(params, np.random.default_rng(1), True)
    assert logp == pytest.approx(
        distribution.logp(torch.from_numpy(params), torch.from_numpy(actions)).numpy(), abs=1e-4
    )


def test_the_race_draws_in_proportion_to_the_weights() -> None:
    wins = race(np.tile(np.array([[1.0, 0.0, 3.0]], np.float32), (20_000, 1)), np.random.default_rng(0))
    assert np.bincount(wins, minlength=3) / 20_000 == pytest.approx([0.25, 0, 0.75], abs=0.01)


@pytest.mark.parametrize("acts", ["value", "stochastic", "scripted"])
@pytest.mark.parametrize("explore", [True, False])
def test_no_policy_ever_plays_an_illegal_action(acts: Any, explore: bool) -> None:
    scripted = ScriptedConfig(name="random") if acts == "scripted" else None
    policy = build_policy(PolicySpec(acts, 0, scripted=scripted), kind(spaces.Discrete(4), masked=True))
    actions = act(policy, 5_000, explore, legal=[False, True, False, True]).actions
    assert set(actions.tolist()) <= {1, 3}
    if explore:
        assert set(actions.tolist()) == {1, 3}


def test_without_exploration_a_policy_repeats_itself() -> None:
    for acts in ("value", "stochastic"):
        policy = build_policy(PolicySpec(acts, 0), kind(spaces.Discrete(4)))  # type: ignore[arg-type]
        a, b = (act(policy, 200, explore=False, seed=s).actions for s in (1, 2))
        assert (a == b).all()


def test_epsilon_falls_linearly_and_travels_with_the_weights() -> None:
    config = ExplorationConfig(type="EpsilonGreedy", initial_epsilon=1.0, final_epsilon=0.2, epsilon_timesteps=100)
    policy, copy = (
        build_policy(PolicySpec("value", 0, exploration=config), kind(spaces.Discrete(2))) for _ in range(2)
    )
    seen = []
    for steps in (0, 50, 100, 500):
        policy.anneal(steps)
        copy.set_weights(policy.get_weights())
        seen.append(float(copy.exploration.value))  # type: ignore[union-attr, arg-type]
    assert seen == pytest.approx([1.0, 0.6, 0.2, 0.2])


def test_epsilon_falls_exponentially_where_a_decay_is_given() -> None:
    keys: dict[str, Any] = {
        "type": "EpsilonGreedy",
        "initial_epsilon": 0.95,
        "final_epsilon": 0.01,
        "epsilon_decay": 500,
    }
    policy, copy = (
        build_policy(PolicySpec("value", 0, exploration=ExplorationConfig(**keys)), kind(spaces.Discrete(2)))
        for _ in range(2)
    )
    seen = []
    for steps in (0, 1, 500, 5000):
        policy.anneal(steps)
        copy.set_weights(policy.get_weights())
        seen.append(float(copy.exploration.value))  # type: ignore[union-attr, arg-type]
    # 0.01 + 0.94 * (1, 0.998001..., 1 / e, e ** -10), worked out by hand
    assert seen == pytest.approx([0.95, 0.948121879, 0.3558066761, 0.0100426759], abs=1e-7)
    with pytest.raises(ValueError, match="epsilon_timesteps"):
        ExplorationConfig(**keys, epsilon_timesteps=100)
    with pytest.raises(ValueError, match="greater than 0"):
        ExplorationConfig(**{**keys, "epsilon_decay": 0})


def test_epsilon_is_the_share_of_random_actions() -> None:
    config = ExplorationConfig(type="EpsilonGreedy", initial_epsilon=0.4, final_epsilon=0.4, epsilon_timesteps=1)
    policy = build_policy(PolicySpec("value", 0, exploration=config), kind(spaces.Discrete(2)))
    rows = inputs(1)
    many = Inputs(np.repeat(rows.obs, 20_000, 0), np.ones((20_000, 0), bool), np.zeros(20_000, np.int64))
    actions = policy.act(many, np.zeros((20_000, 0), np.float32), np.random.default_rng(0), explore=True).actions
    greedy = act(policy, 1, explore=False).actions[0]
    assert (actions == greedy).mean() == pytest.approx(0.8, abs=0.01)


def test_weights_of_a_random_start_make_a_policy_without_one_no_random_player() -> None:
    start = ExplorationConfig(type="StochasticSampling", random_timesteps=10)
    beginner = build_policy(PolicySpec("stochastic", 0, exploration=start), kind(spaces.Discrete(4)))
    settled = build_policy(PolicySpec("stochastic", 0), kind(spaces.Discrete(4)))
    weights = beginner.get_weights()
    assert weights["exploration.uniform"]
    weights["model.network.biases.2"][:] = [0, 50, 0, 0]  # the second action is certain
    for policy in (beginner, settled):
        policy.set_weights(weights)
    assert set(act(settled, 20).actions.tolist()) == {1}
    assert act(beginner, 20).logp == pytest.approx(np.log(0.25))


def test_the_first_random_timesteps_are_uniform() -> None:
    config = ExplorationConfig(type="StochasticSampling", random_timesteps=10)
    policy = build_policy(PolicySpec("stochastic", 0, exploration=config), kind(spaces.Discrete(4)))
    policy.set_weights({k: v + 5 if "biases.2" in k else v for k, v in policy.get_weights().items()})
    assert act(policy, 10).logp == pytest.approx(np.log(0.25))
    policy.anneal(10)
    assert not bool(policy.exploration.uniform)  # type: ignore[union-attr, arg-type]


def test_sampling_knows_its_scale_and_when_its_random_start_ends() -> None:
    plain = sampling(ExplorationConfig(type="StochasticSampling", random_timesteps=10))
    assert (plain.now(), bool(plain.uniform)) == (1.0, True)
    plain.anneal(9)
    assert (plain.now(), bool(plain.uniform)) == (1.0, True)
    plain.anneal(10)
    assert (plain.now(), bool(plain.uniform)) == (1.0, False)
    noisy = sampling(ExplorationConfig(type="GaussianNoise"))
    seen = []
    for timesteps in (0, 5_000, 10_000, 20_000):
        noisy.anneal(timesteps)
        seen.append(noisy.now())
    assert seen == pytest.approx([1.0, 0.55, 0.1, 0.1])
    greedy = over_values(ExplorationConfig(type="EpsilonGreedy"), 0.0)
    assert greedy.now() == 1.0
    greedy.anneal(5_000)
    assert greedy.now() == pytest.approx(0.51)


def test_gaussian_noise_sets_the_deviation_of_box_actions() -> None:
    config = ExplorationConfig(type="GaussianNoise", initial_scale=0.5, final_scale=0.0, scale_timesteps=100)
    policy = build_policy(PolicySpec("stochastic", 0, exploration=config), kind(spaces.Box(-1, 1, (1,), np.float32)))
    mean = act(policy, 5_000, explore=False).actions
    assert (act(policy, 5_000).actions - mean).std() == pytest.approx(0.5, abs=0.02)
    policy.anneal(50)
    assert (act(policy, 5_000).actions - mean).std() == pytest.approx(0.25, abs=0.01)
    with pytest.raises(SpaceMismatchError, match=r"GaussianNoise needs Box"):
        build_policy(PolicySpec("stochastic", 0, exploration=config), kind(spaces.Discrete(2)))


def test_box_actions_are_stretched_to_the_bounds_or_cut_or_left_alone() -> None:
    space = spaces.Box(np.array([0.0, -np.inf], np.float32), np.array([4.0, np.inf], np.float32))
    raw = np.array([[[-1.0, 9.0], [0.0, -9.0], [3.0, 1.0]]], np.float32)
    assert to_env(raw, columns_of(space), RolloutConfig())[0].tolist() == [[0, 9], [2, -9], [4, 1]]
    cut = RolloutConfig(normalize_actions=False, clip_actions=True)
    assert to_env(raw, columns_of(space), cut)[0].tolist() == [[0, 9], [0, -9], [3, 1]]
    assert to_env(raw, columns_of(space), RolloutConfig(normalize_actions=False)) is raw


def test_a_policy_that_is_shown_the_seat_tells_agents_apart() -> None:
    policy = build_policy(PolicySpec("value", 0, agent_id=True), kind(spaces.Discrete(3)))
    assert policy.features.size == 3 + 2  # type: ignore[union-attr]
    row = inputs(1)
    with torch.no_grad():
        values = [
            policy.values(torch.from_numpy(row.obs), torch.tensor([seat]))  # type: ignore[operator]
            for seat in (0, 1)
        ]
    assert not torch.allclose(values[0], values[1])


def test_discrete_observations_become_one_hots_and_images_are_scaled() -> None:
    policy = build_policy(PolicySpec("value", 0), kind(spaces.Discrete(2), obs=spaces.MultiDiscrete([2, 3])))
    features = policy.features(torch.tensor([[1, 2]]), torch.tensor([0]))  # type: ignore[operator]
    assert features.tolist() == [[0, 1, 0, 0, 1]]
    image = build_policy(PolicySpec("value", 0), kind(spaces.Discrete(2), obs=spaces.Box(0, 255, (2, 1), np.uint8)))
    scaled = image.features(torch.tensor([[255, 51]], dtype=torch.uint8), torch.tensor([0]))  # type: ignore[operator]
    assert scaled[0].tolist() == pytest.approx([1.0, 0.2])


def test_dueling_values_are_the_state_value_plus_centred_advantages() -> None:
    policy = build_policy(PolicySpec("value", 0, options={"dueling": True}), kind(spaces.Discrete(3)))
    features = torch.randn(5, 3)
    out = policy.network(features)  # type: ignore[operator]
    assert torch.allclose(policy.values(features, torch.zeros(5, dtype=torch.long)).mean(1), out[:, 0], atol=1e-6)  # type: ignore[operator]


def test_a_dueling_network_that_has_acted_can_still_be_learned_by_autograd() -> None:
    policy = build_policy(PolicySpec("value", 0, options={"dueling": True}), kind(spaces.Discrete(11)))
    obs, seats = torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)
    with torch.inference_mode():
        before = policy.values(obs, seats)
    after = policy.values(obs, seats)
    after[:, 0].sum().backward()
    assert torch.equal(before, after)
    # The slope by one value: 1 for the state, 1 - 1/11 for its own advantage, -1/11 for all others; of two rows.
    slope = list(policy.parameters())[-1].grad
    assert torch.allclose(slope, torch.tensor([2.0, 20 / 11] + 10 * [-2 / 11]))


def test_shared_value_layers_add_one_output() -> None:
    shared = build_policy(
        PolicySpec("stochastic", 0, model=ModelConfig(vf_share_layers=True)), kind(spaces.Discrete(3))
    )
    params, value = shared(torch.randn(4, 3), torch.zeros(4, dtype=torch.long), torch.ones(4, 0, dtype=torch.bool))
    assert params.shape == (4, 3)
    assert value.shape == (4,)
    assert value.abs().sum() > 0


def test_the_same_recipe_gives_the_same_weights() -> None:
    a, b, c = (
        build_policy(PolicySpec("stochastic", 0, seed=s), kind(spaces.Discrete(3))).get_weights() for s in (1, 1, 2)
    )
    assert all((a[k] == b[k]).all() for k in a)
    assert any((a[k] != c[k]).any() for k in a)


def rule(obs: Any) -> int:
    return 2 if obs[0] > 0 else 1


def rule_with_dice(obs: Any, rng: np.random.Generator) -> int:
    return int(rng.integers(3))


def test_scripted_policies_do_what_they_say() -> None:
    discrete = kind(spaces.Discrete(3, start=1))
    fixed = build_policy(PolicySpec("scripted", 0, scripted=ScriptedConfig(name="fixed", action=3)), discrete)
    assert set(act(fixed, 5).actions.tolist()) == {2}  # stored actions count from 0
    ruled = build_policy(
        PolicySpec("scripted", 0, scripted=ScriptedConfig(name=f"{__name__}:rule")), kind(spaces.Discrete(3))
    )
    seen = inputs(20)
    assert act(ruled, 20).actions.tolist() == [rule(o) for o in seen.obs]
    diced = build_policy(
        PolicySpec("scripted", 0, scripted=ScriptedConfig(name=rule_with_dice)), kind(spaces.Discrete(3))
    )
    assert (act(diced, 9, seed=4).actions == act(diced, 9, seed=4).actions).all()
    for space in (spaces.MultiDiscrete([2, 3]), spaces.Box(-1, 1, (2,), np.float32)):
        random = build_policy(PolicySpec("scripted", 0, scripted=ScriptedConfig(name="random")), kind(space))
        assert act(random, 7).actions.shape == (7, 2)


def test_scripted_mistakes_are_named() -> None:
    for config, text in (
        (ScriptedConfig(name="fixed", action=7), "does not fit the action space"),
        (ScriptedConfig(name="rocky"), "unknown scripted policy 'rocky'"),
        (ScriptedConfig(name=f"{__name__}:OBS"), "expected a function or Policy class"),
    ):
        with pytest.raises(ConfigError, match=text):
            build_policy(PolicySpec("scripted", 0, scripted=config), kind(spaces.Discrete(3)))


def test_action_values_refuse_box_actions_with_the_alternative() -> None:
    with pytest.raises(SpaceMismatchError, match=r"need Discrete actions.*Use ppo"):
        build_policy(PolicySpec("value", 0), kind(spaces.Box(-1, 1, (1,), np.float32)))


def test_weights_of_another_model_are_refused_by_name() -> None:
    policy = build_policy(PolicySpec("value", 0), kind(spaces.Discrete(2)))
    mine = policy.get_weights()
    name = next(iter(mine))
    with pytest.raises(
        PolicyError, match=rf"weights do not fit: .*{name}.*Give weights of a policy with the same model"
    ):
        policy.set_weights({**mine, name: np.zeros(9)})
    with pytest.raises(PolicyError, match=r"Unexpected key.*own"):
        policy.set_weights({**mine, "own": np.zeros(2)})


def test_distributions_draw_with_and_without_a_generator() -> None:
    chances = Chances(Categorical(2), torch.tensor([[50.0, -50.0], [-50.0, 50.0]]))
    assert chances.sample().tolist() == chances.sample(np.random.default_rng(0)).tolist() == [0, 1]
    even = Chances(Categorical(2), torch.zeros(64, 2))
    assert even.sample(np.random.default_rng(3)).tolist() == even.sample(np.random.default_rng(3)).tolist()


def test_the_best_response_of_nfsp_explores_less_and_less() -> None:
    spec = PolicySpec("nfsp", 0, ModelConfig(fcnet_hiddens=[4]), options={"anticipatory": 0.1})
    policy = build_policy(spec, kind(spaces.Discrete(3)))
    before = policy.best.exploration.now()  # type: ignore[union-attr]
    policy.anneal(10**9)  # type: ignore[operator]
    assert policy.best.exploration.now() < before  # type: ignore[union-attr]


def test_nfsp_explores_little_where_nothing_is_said() -> None:
    policy = build_policy(PolicySpec("nfsp", 0, ModelConfig(fcnet_hiddens=[4])), kind(spaces.Discrete(3)))
    seen = []
    for timesteps in (0, 100_000, 200_000, 300_000):
        policy.anneal(timesteps)  # type: ignore[operator]
        seen.append(policy.best.exploration.now())  # type: ignore[union-attr]
    assert seen == pytest.approx([0.06, 0.0305, 0.001, 0.001], rel=1e-4)
