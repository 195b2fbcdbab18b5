"""Evolution strategies: ranks, the search gradient, pairs, several policies, resuming, workers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from marl.algos.es.config import EsConfig
from marl.algos.es.estimate import centred_ranks, search_gradient
from marl.algos.es.learner import EsLearner, Scores
from marl.algos.es.noise import noise, perturbed
from marl.data.task import AgentID, AgentType, AnySpace
from marl.envs.base import Action, MultiAgentEnv, StepResult
from marl.errors import ConfigError
from marl.policies.build import build_policy
from marl.policies.config import ModelConfig, PolicySpec
from marl.policies.custom import Model
from marl.policies.policy import Policy
from marl.policies.stochastic import StochasticPolicy
from marl.runs.result import without_wall_clock
from marl.training.es_source import EvolutionSource
from marl.training.trainer import Trainer
from tests.training.trees import differences

SMALL = {"fcnet_hiddens": [8], "evaluation": {"interval": 0}, "seed": 3, "num_perturbations": 4}
CARTPOLE = {"env": "CartPole-v1", "horizon": 30, "timesteps_per_iteration": 200, **SMALL}
DILEMMA = {"env": "matrix_game", "env_config": {"game": "prisoners_dilemma"}, **SMALL}


class Sides(MultiAgentEnv):
    """Eight numbers one after the other; 1 is paid for each one whose sign the agent tells."""

    possible_agents = ("a_0",)
    spaces = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.rng, self.t, self.x = np.random.default_rng(0), 0, 0.0

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self.spaces[0]

    def action_space(self, agent: AgentID) -> AnySpace:
        return self.spaces[1]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.rng, self.t = np.random.default_rng(seed), 0
        return self._show(), {}

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        paid = float(int(actions["a_0"]) == int(self.x > 0))
        self.t += 1
        over = {"a_0": self.t == 8}
        return StepResult(self._show(), {"a_0": paid}, over, {"a_0": False}, {})

    def _show(self) -> dict[AgentID, Any]:
        self.x = float(self.rng.uniform(-1, 1))
        return {"a_0": np.array([self.x, 1.0], np.float32)}


class StepModel(Model):
    """A hard threshold between two layers: its derivative is zero wherever it has one."""

    def __init__(self, inputs: int, outputs: int, config: Mapping[str, Any]) -> None:
        super().__init__(inputs, outputs, config)
        self.first, self.second = nn.Linear(inputs, 8), nn.Linear(8, outputs)

    def forward(self, features: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        return self.second((self.first(features) > 0).float()), carry


def policy(seed: int = 1) -> Policy:
    kind = AgentType("a", ("a_0",), spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2))
    return build_policy(PolicySpec("stochastic", 0, ModelConfig(fcnet_hiddens=[4]), seed=seed), kind)


def flat(found: Policy) -> np.ndarray[Any, Any]:
    return torch.cat([p.detach().reshape(-1) for p in found.parameters()]).numpy().copy()


def source(trainer: Trainer) -> EvolutionSource:
    assert isinstance(trainer.source, EvolutionSource)
    return trainer.source


# -- the estimate ----------------------------------------------------------------------------------------------------


def test_centred_ranks_go_from_minus_a_half_to_a_half_and_equal_scores_share_theirs() -> None:
    assert centred_ranks(np.array([[30.0, 10.0], [20.0, 20.0]])).tolist() == [[0.5, -0.5], [0.0, 0.0]]
    assert centred_ranks(np.array([[5.0, 5.0], [5.0, 5.0]])).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert centred_ranks(np.array([1e9, -1e9, 0.0])).tolist() == [0.5, -0.5, 0.0]


def test_the_estimate_equals_a_slow_loop_on_a_quadratic() -> None:
    sigma, seeds = 0.1, [11, 12, 13, 14, 15]
    theta, summit = np.array([0.3, -0.2, 1.0]), np.array([1.0, 0.5, -1.0])

    def height(at: Any) -> float:
        return float(-sum((at[j] - summit[j]) ** 2 for j in range(3)))

    slope = [-2 * (theta[j] - summit[j]) for j in range(3)]
    by_hand = np.zeros(3)
    for seed in seeds:  # on a quadratic f(theta + s e) - f(theta - s e) = 2 s (e . slope), whatever s is
        e = noise(seed, 3)
        along = sum(float(e[j]) * slope[j] for j in range(3))
        by_hand += [along * float(e[j]) / len(seeds) for j in range(3)]
    scores = [[height(theta + sigma * noise(s, 3)), height(theta - sigma * noise(s, 3))] for s in seeds]
    assert search_gradient(seeds, np.array(scores), sigma, 3) == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.slow
def test_with_many_pairs_the_estimate_comes_near_the_true_slope() -> None:
    seeds = list(range(20_000))
    slope = np.array([2.0, -1.0])
    scores = np.array([[noise(s, 2) @ slope, -noise(s, 2) @ slope] for s in seeds]) * 0.1
    assert search_gradient(seeds, scores, 0.1, 2) == pytest.approx(slope, abs=0.06)


def test_a_perturbed_policy_is_moved_by_its_noise_and_comes_back_to_the_last_bit() -> None:
    found = policy()
    before = flat(found)
    with perturbed(found, 7, -0.5):
        assert flat(found) == pytest.approx(before - 0.5 * noise(7, before.size), abs=1e-6)
    assert np.array_equal(flat(found), before)
    with pytest.raises(ZeroDivisionError), perturbed(found, 7, 0.5):
        raise ZeroDivisionError
    assert np.array_equal(flat(found), before)


def test_one_step_of_sgd_goes_along_the_ranked_estimate_and_decays_the_weights() -> None:
    found = policy()
    config = EsConfig(lr=0.1, noise_stdev=0.2, num_perturbations=2, optimizer={"type": "sgd", "weight_decay": 0.01})
    learner = EsLearner({"p": found}, {"p": config}, 0)
    before = flat(found)
    seeds = learner.propose()["p"]
    learner.tell({"p": Scores(seeds, np.array([[4.0, 1.0], [2.0, 3.0]], np.float32), 10, 10)})
    learner.learn(None)  # type: ignore[arg-type]
    # ranks 3 0 / 1 2 of 0..3, so utilities 1/2 -1/2 / -1/6 1/6 and differences 1 and -1/3
    first, second = noise(seeds[0], before.size), noise(seeds[1], before.size)
    gradient = (first - second / 3) / (2 * 2 * 0.2)
    assert flat(found) == pytest.approx(before + 0.1 * (gradient - 0.01 * before), abs=1e-5)


def test_pairs_in_which_a_policy_did_not_play_are_left_out() -> None:
    moved = []
    for scores in ([[4.0, 1.0], [np.nan, np.nan]], [[4.0, 1.0]]):
        found = policy()
        learner = EsLearner({"p": found}, {"p": EsConfig()}, 0)
        learner.tell({"p": Scores([5, 6][: len(scores)], np.array(scores, np.float32), 10, 10)})
        learner.learn(None)  # type: ignore[arg-type]
        moved.append(flat(found))
    assert np.array_equal(moved[0], moved[1])


# -- the population --------------------------------------------------------------------------------------------------


def test_both_of_a_pair_get_opposite_noise_and_the_same_episodes() -> None:
    with Trainer("es", config={**CARTPOLE, "episodes_per_perturbation": 2}) as trainer:
        found = source(trainer)
        trials = found._trials({"default_policy": [1, 2, 3, 4]})
        assert len(trials) == 8
        for plus, minus in zip(trials[::2], trials[1::2], strict=True):
            assert plus.episode_seeds == minus.episode_seeds
            (seed, scale), (partner, opposite) = plus.moves["default_policy"], minus.moves["default_policy"]
            assert (seed, scale) == (partner, -opposite)
        drawn = [seed for trial in trials[::2] for seed in trial.episode_seeds]
        assert len(set(drawn)) == 8
        trainer.train()
        later = found._trials({"default_policy": [1, 2, 3, 4]})
        assert not {seed for trial in later for seed in trial.episode_seeds} & set(drawn)


@pytest.mark.parametrize("copies", [1, 3])
def test_steps_decisions_and_episodes_are_counted_as_everywhere(copies: int) -> None:
    keys = {**DILEMMA, "episodes_per_perturbation": 2, "num_envs_per_worker": copies, "timesteps_per_iteration": 1}
    with Trainer("es", config=keys) as trainer:
        result = trainer.train()
    assert result["episodes_this_iter"] == 4 * 2 * 2  # pairs, both of them, episodes; idle copies do not count
    assert result["timesteps_total"] == result["episodes_this_iter"]  # one step each
    assert result["agent_timesteps_total"] == 2 * result["timesteps_total"]
    assert result["info"]["num_updates"] == 1
    assert result["info"]["num_steps_trained"] == result["timesteps_total"]


def test_a_policy_that_plays_both_prisoners_cooperates_and_two_policies_defect() -> None:
    keys = {**DILEMMA, "num_perturbations": 10, "noise_stdev": 0.3, "evaluation": {"interval": 15, "episodes": 1}}
    keys |= {"timesteps_per_iteration": 1, "fcnet_hiddens": []}
    rewards = []
    for mapping in ("shared", "per_agent"):
        with Trainer("es", config={**keys, "policy_mapping_fn": mapping}) as trainer:
            results = [trainer.train() for _ in range(15)]
        rewards.append(results[-1]["evaluation"]["episode_reward_mean"])
    assert rewards == [6.0, 2.0]  # scored by the sum: 3 + 3; each by its own reward: 1 + 1


def test_a_frozen_policy_stays_as_it_is_and_is_not_perturbed() -> None:
    keys = {**DILEMMA, "policy_mapping_fn": "per_agent", "timesteps_per_iteration": 1, "noise_stdev": 0.5}
    with Trainer("es", config={**keys, "policies_to_train": ["player_1"]}) as trainer:
        before = trainer.get_weights()
        proposed = [learner.propose() for learner in source(trainer).learners]
        assert [list(seeds) for seeds in proposed] == [[], ["player_1"]]
        for _ in range(5):
            result = trainer.train()
        after = trainer.get_weights()
        assert list(result["info"]["learner"]) == ["player_1"]
    assert differences(after["player_0"], before["player_0"]) == []
    assert differences(after["player_1"], before["player_1"]) != []


def test_a_run_in_which_everybody_is_frozen_goes_on_and_changes_nothing() -> None:
    with Trainer("es", config={**CARTPOLE, "policies_to_train": []}) as trainer:
        before = trainer.get_weights()
        assert trainer.train()["timesteps_total"] >= 200
        assert differences(trainer.get_weights(), before) == []


def test_scripted_others_play_along() -> None:
    keys = {**DILEMMA, "policies": {"me": {}, "fool": {"scripted": {"name": "fixed", "action": 0}}}, "noise_stdev": 0.3}
    keys |= {"policy_mapping_fn": {"player_0": "me", "player_1": "fool"}, "fcnet_hiddens": []}
    keys |= {"timesteps_per_iteration": 80, "evaluation": {"interval": 1, "episodes": 1}}
    with Trainer("es", config=keys) as trainer:
        result = trainer.train()
    assert result["evaluation"]["policy_reward_mean"] == {"me": 5.0, "fool": 0.0}  # defects against a cooperator


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.slow
def test_a_model_without_derivatives_learns_to_tell_two_sides_apart(seed: int) -> None:
    keys = {
        "env": "tests.algos.test_es:Sides",
        "custom_model": "tests.algos.test_es:StepModel",
        "seed": seed,
        "lr": 0.1,
    }
    keys |= {"noise_stdev": 0.3, "num_perturbations": 30, "timesteps_per_iteration": 16 * 2 * 30 * 8}
    with Trainer("es", config={**keys, "evaluation": {"interval": 1, "episodes": 50}}) as trainer:
        model = trainer.get_policy().network
        assert isinstance(model, StepModel)
        model(torch.randn(5, 2), torch.zeros(5, 0))[0].sum().backward()
        assert not any(p.grad is not None and p.grad.any() for p in model.first.parameters())
        model.zero_grad(set_to_none=False)
        before = trainer.evaluate()["episode_reward_mean"]
        after = trainer.train()["evaluation"]["episode_reward_mean"]
    assert before < 5.0  # a guess tells 4 of 8
    assert after > 7.0


def test_actions_are_drawn_only_where_that_is_asked_for() -> None:
    returns = {}
    for drawn in (False, True):
        with Trainer("es", config={**CARTPOLE, "sample_actions": drawn}) as trainer:
            trials = source(trainer)._trials({})
            outcomes = source(trainer)._play([trials[0], trials[0]])
        assert outcomes[0].episodes.lengths.tolist() == outcomes[1].episodes.lengths.tolist()
        returns[drawn] = outcomes[0].episodes.lengths.tolist()
    assert returns[False] != returns[True]  # the untrained policy always pushes the same way unless it draws


def test_the_observation_filter_learns_from_one_trial_per_round() -> None:
    with Trainer(
        "es", config={**CARTPOLE, "observation_filter": "MeanStdFilter", "timesteps_per_iteration": 1}
    ) as trainer:
        trial = source(trainer)._trials({"default_policy": [1, 2, 3, 4]})[0]
        obs, seats = source(trainer)._play([trial])[0].seen["default_policy"]
        assert obs.shape == (len(seats), 4)
        assert not seats.any()
        trainer.train()
        found = trainer.get_policy()
        assert isinstance(found, StochasticPolicy)
        statistics = found.model.filter
        assert statistics is not None
        assert 1 < int(statistics.count) <= 30  # one episode, of 30 steps at most


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"policies": {"a": {}, "b": {"algo": "ppo"}}}, "cannot be mixed with other algorithms"),
        ({"policies": {"a": {}, "b": {"num_perturbations": 7}}}, "differ in num_perturbations"),
        ({"policies": {"a": {"shared": {"encoder": "e"}}, "b": {"shared": {"encoder": "e"}}}}, "shares the layers e"),
        ({"gamma": 0.9}, "gamma: 0.9 means nothing here: es compares whole episodes .*Drop gamma"),
        (
            {"train_batch_size": 100},
            "train_batch_size: 100 means nothing here: the batch of es .*Drop train_batch_size",
        ),
        ({"rollout_fragment_length": 10}, "es plays whole episodes"),
        (
            {"vf_share_layers": True},
            "vf_share_layers: true is not for es, but it learns by es .es learns no values",
        ),
    ],
)
def test_what_evolution_cannot_do_is_refused_before_anything_is_played(keys: dict[str, Any], says: str) -> None:
    if "policies" in keys:
        keys = {**keys, "policy_mapping_fn": {"player_0": "a", "player_1": "b"}}
    with pytest.raises(ConfigError, match=says):
        Trainer("es", config={**DILEMMA, **keys})


# -- nothing is lost -------------------------------------------------------------------------------------------------


def parts_of(trainer: Trainer, *names: str) -> dict[str, Any]:
    parts = trainer.store._parts()
    return {name: parts[name] for name in names}


def run(keys: Mapping[str, Any], iterations: int, kill_at: int = -1) -> tuple[list[Any], dict[str, Any]]:
    lines = []
    with Trainer("es", config=dict(keys)) as trainer:
        for i in range(iterations):
            if i == kill_at:
                import ray

                ray.kill(trainer.workers.actors[2])  # type: ignore[attr-defined]
            lines.append(without_wall_clock(trainer.train()))
        parts = parts_of(trainer, "policies", "learners")
    for line in lines:
        for name in ("config", "num_healthy_workers"):
            line.pop(name)
    return lines, parts


@pytest.mark.parametrize("optimizer", [{"type": "adam"}, {"type": "sgd", "momentum": 0.9}])
@pytest.mark.slow
def test_a_resumed_run_equals_one_that_never_stopped(optimizer: dict[str, Any], tmp_path: Path) -> None:
    keys = {**CARTPOLE, "optimizer": optimizer, "observation_filter": "MeanStdFilter", "evaluation": {"interval": 2}}
    with Trainer("es", config=keys) as straight:
        lines = [without_wall_clock(straight.train()) for _ in range(6)]
        expected = parts_of(straight, "policies", "learners", "workers")
    with Trainer("es", config=keys) as first:
        for _ in range(3):
            first.train()
        first.save(tmp_path / "half")
    with Trainer("es", config=keys) as second:
        second.restore(tmp_path / "half")
        again = [without_wall_clock(second.train()) for _ in range(3)]
        assert second.notes == []
        assert differences(parts_of(second, "policies", "learners", "workers"), expected) == []
    assert differences(again, lines[3:]) == []


def test_the_number_of_workers_changes_nothing() -> None:
    three = {**CARTPOLE, "num_workers": 3, "pool": "in_process"}
    assert differences(run(three, 3), run(CARTPOLE, 3)) == []


@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize("kill_at", [-1, 1])
def test_ray_workers_give_the_same_numbers_as_this_process_also_when_one_dies(kill_at: int) -> None:
    assert differences(run({**CARTPOLE, "num_workers": 2}, 3, kill_at), run(CARTPOLE, 3)) == []
