"""Neural fictitious self-play: who plays an episode, what is imitated, and where it leads on Kuhn poker."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from marl.algos.nfsp.learner import NfspLearner
from marl.data.batch import SampleBatch
from marl.data.task import AgentType, Array
from marl.errors import ConfigError, SpaceMismatchError
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.policy_conversion import strategy_of
from marl.gametheory.tree.response import nash_conv
from marl.policies.build import build_policy
from marl.policies.config import ExplorationConfig, ModelConfig, PolicySpec
from marl.policies.nfsp import NfspPolicy
from marl.policies.policy import Inputs
from marl.populations.members import Member
from marl.scenario.load import load_scenario
from marl.testing.check_learner import check_learner
from marl.training.trainer import Trainer

SMALL: dict[str, Any] = {
    "fcnet_hiddens": [16], "num_envs_per_worker": 8, "timesteps_per_iteration": 128, "learning_starts": 64,
    "train_batch_size": 32, "evaluation": {"interval": 0}, "seed": 3,
}  # fmt: skip
SCENARIO = Path(__file__).parents[2] / "scenarios" / "kuhn_nfsp.yaml"
KUHN: dict[str, Any] = {**SMALL, "env": "kuhn_poker", "policy_mapping_fn": "per_agent", "gamma": 1.0}


# -- the policy ----------------------------------------------------------------------------------------------------


def policy(actions: int = 3, masked: bool = False, **keys: Any) -> NfspPolicy:
    kind = AgentType("k", ("a",), spaces.Box(-1, 1, (2,)), spaces.Discrete(actions), masked=masked)
    greedy = ExplorationConfig(type="EpsilonGreedy", initial_epsilon=0.0, final_epsilon=0.0)
    spec = PolicySpec("nfsp", 0, ModelConfig(fcnet_hiddens=[4]), greedy, options={"anticipatory": 0.25}, **keys)
    built = build_policy(spec, kind)
    assert isinstance(built, NfspPolicy)
    with torch.no_grad():  # values and chances that do not depend on what is seen
        for parameter in (*built.best.parameters(), *built.average.parameters()):
            parameter.zero_()
    return built


def set_outputs(built: NfspPolicy, values: list[float], chances: list[float]) -> None:
    with torch.no_grad():
        list(built.best.model.parameters())[-1].copy_(torch.tensor(values))
        list(built.average.parameters())[-1].copy_(torch.tensor(chances).log())


def seen(episode_uniform: Array, legal: list[bool] | None = None) -> Inputs:
    rows = len(episode_uniform)
    mask = np.zeros((rows, 0), bool) if legal is None else np.tile(np.array(legal), (rows, 1))
    return Inputs(np.zeros((rows, 2), np.float32), mask, np.zeros(rows, np.int64), episode_uniform)


NONE = np.zeros((10_000, 0), np.float32)


def test_the_lot_decides_who_plays_and_the_log_probability_tells_who_did() -> None:
    built, rng = policy(), np.random.default_rng(0)
    set_outputs(built, values=[0.0, 9.0, 1.0], chances=[0.5, 0.2, 0.3])
    episode_uniform = np.linspace(0, 1, 10_000, endpoint=False)
    decision = built.act(seen(episode_uniform), NONE, rng, explore=True)
    best = episode_uniform < 0.25
    assert (decision.actions[best] == 1).all()
    assert (decision.logp[best] == 0.0).all()
    expected = np.log(np.array([0.5, 0.2, 0.3]))[decision.actions]
    assert decision.logp[~best] == pytest.approx(expected[~best], abs=1e-6)
    shares = np.bincount(decision.actions[~best], minlength=3) / (~best).sum()
    assert shares == pytest.approx([0.5, 0.2, 0.3], abs=0.03)  # five deviations of 7,500 draws


def test_without_exploring_the_average_policy_is_drawn_from_whatever_the_lot() -> None:
    built, rng = policy(), np.random.default_rng(1)
    set_outputs(built, values=[0.0, 9.0, 1.0], chances=[0.5, 0.2, 0.3])
    decision = built.act(seen(np.zeros(10_000)), NONE, rng, explore=False)
    assert np.bincount(decision.actions) / 10_000 == pytest.approx([0.5, 0.2, 0.3], abs=0.025)
    assert (decision.logp < 0).all()


def test_an_average_policy_that_is_certain_is_still_told_from_the_best_response() -> None:
    built = policy()
    set_outputs(built, values=[0.0, 9.0, 1.0], chances=[1e-30, 1.0, 1e-30])
    decision = built.act(seen(np.full(100, 0.9)), NONE[:100], np.random.default_rng(2), explore=True)
    assert (decision.actions == 1).all()
    assert decision.logp == pytest.approx(np.full(100, -1e-6), rel=1e-3)
    assert (decision.logp != 0.0).all()


@pytest.mark.parametrize("lot", [0.1, 0.9])
def test_neither_of_the_two_plays_what_is_forbidden(lot: float) -> None:
    built = policy(masked=True)
    set_outputs(built, values=[9.0, 1.0, 0.0], chances=[0.9, 0.06, 0.04])
    legal = [False, True, True]
    inputs = seen(np.full(1_000, lot), legal)
    for explore in (True, False):
        actions = built.act(inputs, NONE[:1_000], np.random.default_rng(3), explore=explore).actions
        assert set(actions.tolist()) == ({1} if explore and lot < 0.25 else {1, 2})
    batch = SampleBatch({"obs": inputs.obs, "legal": inputs.legal, "agent_index": inputs.agent_index})
    chances = built.action_distribution(batch).params.softmax(1)[0]
    assert chances.tolist() == pytest.approx([0.0, 0.6, 0.4])


def test_outside_of_an_episode_every_decision_draws_its_own_lot() -> None:
    built = policy()
    inputs = seen(np.zeros(10_000))
    inputs.episode_uniform = np.zeros(0)
    decision = built.act(inputs, NONE, np.random.default_rng(4), explore=True)
    assert (decision.logp == 0.0).mean() == pytest.approx(0.25, abs=0.022)  # five deviations


def test_in_matches_it_plays_its_average_and_not_the_mixture_that_it_learns_by() -> None:
    assert not Member("nfsp", PolicySpec("nfsp", 0)).draws_actions


@pytest.mark.parametrize(
    ("env", "keys", "error", "text"),
    [
        ("two_step_game", {"use_lstm": True}, ConfigError, "nfsp imitates single decisions"),
        ("two_step_game", {"use_gru": True}, ConfigError, "Drop use_gru"),
        ("Pendulum-v1", {}, SpaceMismatchError, "need Discrete actions"),
        ("two_step_game", {"anticipatory": 0.0}, ConfigError, "anticipatory = 0.0"),
        ("two_step_game", {"exploration_config": {"type": "GaussianNoise"}}, ConfigError, "does not fit nfsp"),
    ],
)
def test_what_it_cannot_learn_is_refused(env: str, keys: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Trainer("nfsp", env=env, config=keys)


# -- the learner ---------------------------------------------------------------------------------------------------


def learner_of(trainer: Trainer, index: int = 0) -> NfspLearner:
    learner = trainer.learners[index]
    assert isinstance(learner, NfspLearner)
    return learner


def test_one_of_the_two_plays_a_whole_episode_and_the_best_response_its_share_of_them() -> None:
    with Trainer("nfsp", config={**KUHN, "num_envs_per_worker": 64, "anticipatory": 0.3}) as trainer:
        batch = trainer.workers.collect(60).batch
    rows = batch.for_policy("player_0")
    modes: dict[int, set[bool]] = {}
    for episode, logp in zip(rows["eps_id"].tolist(), rows["action_logp"].tolist(), strict=True):
        modes.setdefault(episode, set()).add(logp == 0.0)
    assert len(rows) > len(modes) > 1_000  # some episodes have two decisions of the player
    assert all(len(mode) == 1 for mode in modes.values())
    share = np.mean([mode == {True} for mode in modes.values()])
    assert share == pytest.approx(0.3, abs=5 * math.sqrt(0.21 / len(modes)))


def test_the_replay_holds_all_decisions_and_the_reservoir_those_of_the_best_response() -> None:
    with Trainer("nfsp", config={**KUHN, "anticipatory": 0.5}) as trainer:
        batch = trainer.workers.collect(30).batch
        learner = learner_of(trainer)
        learner.learn(batch)
        rows = batch.for_policy(learner.name)
        best = rows["action_logp"] == 0.0
        assert 0 < best.sum() < len(rows)
        assert learner.best.teams[0].replay.total == len(rows)
        assert len(learner.reservoir) == best.sum()
        held = learner.reservoir.sample(len(rows), np.random.default_rng(0))
        assert (held["actions"] == rows["actions"][best]).all()
        assert (held["obs"] == rows["obs"][best]).all()


def test_the_average_policy_learns_how_often_each_action_was_a_best_response() -> None:
    with Trainer("nfsp", config={**KUHN, "average_lr": 0.01, "train_batch_size": 400}) as trainer:
        learner = learner_of(trainer)
        kind = learner.policy.kind
        obs = np.zeros((400, kind.obs_width), np.float32)
        obs[100:, 0] = 1.0  # seen in three of four rows
        actions = np.concatenate([np.arange(100) < 75, np.arange(300) < 30]).astype(np.int64)  # 3/4 and 1/10
        rows: dict[str, Array] = {"obs": obs, "actions": actions, "agent_index": np.zeros(400, np.int64)}
        batch = SampleBatch({**rows, "legal": np.zeros((400, kind.legal_width), bool)})
        learner.reservoir.add(batch, learner.rng)
        before = learner.policy.best.get_weights()
        for _ in range(300):
            numbers = learner._train()
        chances = learner.policy.action_distribution(batch).params.softmax(1)[:, 1]
        after = learner.policy.best.get_weights()
    assert float(chances[0]) == pytest.approx(0.75, abs=0.01)
    assert float(chances[-1]) == pytest.approx(0.1, abs=0.01)
    entropy = [-p * math.log(p) - (1 - p) * math.log(1 - p) for p in (0.75, 0.1)]
    assert float(numbers["average_loss"]) == pytest.approx(0.25 * entropy[0] + 0.75 * entropy[1], abs=1e-3)
    assert all((before[name] == after[name]).all() for name in before)


def test_both_networks_make_the_same_number_of_updates_and_tell_their_losses() -> None:
    with Trainer("nfsp", config={**KUHN, "anticipatory": 0.5, "updates_per_step": 0.125}) as trainer:
        result = trainer.train()
        learner = learner_of(trainer)
        # The first 64 env steps are waited for; each of the other fragments pays for an eighth of its steps.
        updates = learner.counters["num_updates"]
        assert 0 < updates <= 128 * 0.125
        assert int(learner.optimiser.state_dict()["step"]) == updates
        stats = result["info"]["learner"]["player_0"]["learner_stats"]
        assert {"td_loss", "mean_q", "average_loss", "average_entropy", "average_grad_norm"} <= set(stats)
        assert stats["reservoir_rows"] == len(learner.reservoir)
        assert 0 < stats["average_entropy"] <= math.log(2) + 1e-6


def test_filters_of_both_networks_see_every_decision_once() -> None:
    with Trainer("nfsp", config={**KUHN, "observation_filter": "MeanStdFilter"}) as trainer:
        trainer.train()
        learner = learner_of(trainer)
        rows = learner.best.teams[0].replay.total
        best, average = learner.policy.best.model.filter, learner.policy.average.filter
        assert best is not None
        assert average is not None
        counted = {float(module.count) for module in (best, average)}
        assert len(counted) == 1
        assert counted.pop() == rows > 0
        assert torch.equal(best.mean, average.mean)


def test_a_full_reservoir_is_resumed_to_the_last_bit() -> None:
    report = check_learner("nfsp", {"reservoir_size": 20, "anticipatory": 0.5}, only=["resumes exactly"])
    assert report.passed, report.failures


def test_a_policy_that_was_thawed_goes_on_with_its_reservoir() -> None:
    with Trainer("nfsp", config={**KUHN, "anticipatory": 0.5}) as trainer:
        trainer.train()
        frozen = learner_of(trainer)
        held, weights = len(frozen.reservoir), frozen.policy.get_weights()
        trainer.set_policies_to_train(["player_1"])
        trainer.train()
        assert len(frozen.reservoir) == held > 0
        assert all((array == frozen.policy.get_weights()[name]).all() for name, array in weights.items())
        trainer.set_policies_to_train(["player_0", "player_1"])
        trainer.train()
        assert len(frozen.reservoir) > held
        assert any((array != frozen.policy.get_weights()[name]).any() for name, array in weights.items())


@pytest.mark.parametrize(
    "keys",
    [
        {"env": "kuhn_poker", "env_config": {"players": 3}, "policy_mapping_fn": "per_agent"},
        {"env": "kuhn_poker", "policy_mapping_fn": "shared"},
        {
            "env": "leduc_poker",
            "policy_mapping_fn": "per_agent",
        },  # with illegal actions, which the env complains about
        {"env": "matrix_game", "env_config": {"game": "rock_paper_scissors"}, "policy_mapping_fn": "per_agent"},
    ],
    ids=["three players", "one policy", "masks", "at once"],
)
def test_it_plays_and_learns_with_any_number_of_players(keys: dict[str, Any]) -> None:
    with Trainer("nfsp", config={**SMALL, "anticipatory": 0.5, **keys}) as trainer:
        before = trainer.get_weights()
        trainer.train()
        trainer.train()
        for name, weights in trainer.get_weights().items():
            changed = {
                part for key in weights for part in [key.split(".")[0]] if (weights[key] != before[name][key]).any()
            }
            assert changed == {"best", "average"}


@pytest.mark.slow
def test_after_ten_thousand_games_of_kuhn_poker_the_average_policies_are_close_to_an_equilibrium() -> None:
    scenario, tree = load_scenario(SCENARIO), build_tree("kuhn_poker")
    quiet = {"exploitability": scenario.exploitability.model_copy(update={"interval": 0}), "seed": 100, "goal": {}}
    with Trainer(scenario=scenario.model_copy(update=quiet)) as trainer:
        untrained = nash_conv(tree, strategy_of(tree, trainer.policies)) / 2
        while trainer.train()["episodes_total"] < 10_000:
            pass
        learned = nash_conv(tree, strategy_of(tree, trainer.policies)) / 2
    assert untrained == pytest.approx(11 / 24, abs=0.05)  # about uniform play
    assert learned < 0.3  # OpenSpiel's has 0.423 here


def test_recordings_are_refused_because_they_do_not_tell_best_responses_apart(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="which decisions were its own best responses"):
        Trainer("nfsp", config={"env": "kuhn_poker", "policy_mapping_fn": "per_agent", "input": str(tmp_path)})
