"""Policies judged by recordings: what recordings have to hold, what runs report, and ``marl estimate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium import spaces

import marl
from marl.data.seal import sealed
from marl.errors import ConfigError, DataError, UnknownNameError
from marl.offline.judging import Judge
from marl.offline.source import find_files, who_plays_all
from marl.offline.trajectories import TOLD, read_trajectories
from marl.play.playback import RolloutOptions, play
from marl.policies.policy import Inputs
from marl.training.sources import close_source
from marl.training.trainer import Trainer
from tests.command import marl as marl_command

SMALL = {"fcnet_hiddens": [8], "evaluation": {"interval": 0}}
TWO_STEP: dict[str, Any] = {**SMALL, "num_envs_per_worker": 25}


def record(folder: Path, algo: str = "ppo", env: str = "two_step_game", steps: int = 8, **keys: Any) -> Trainer:
    """A trainer that has recorded what its untrained policies do, and has learned nothing."""
    trainer = Trainer(algo, env=env, config={**TWO_STEP, "output": str(folder), **keys})
    trainer.source.collect(steps)
    close_source(trainer.source)
    trainer.stop()
    return trainer


def judge(trainer: Trainer, folder: Path) -> Judge:
    setup = trainer.setup
    data = read_trajectories(find_files(str(folder)), setup.task, setup.rollout.config.normalize_actions)
    return Judge(data, trainer.policies, list(setup.roles), who_plays_all(setup, data))


PENDULUM: dict[str, Any] = {"horizon": 20, "num_envs_per_worker": 4}


@pytest.mark.parametrize(
    ("algo", "env", "keys"),
    [
        ("ppo", "two_step_game", {}),
        ("ppo", "Pendulum-v1", PENDULUM),
        ("sac", "Pendulum-v1", PENDULUM),
        ("ppo", "Pendulum-v1", {**PENDULUM, "normalize_actions": False}),
        ("ppo", "kuhn_poker", {}),
    ],
)
def test_who_judges_his_own_play_finds_what_was_paid(tmp_path: Path, algo: str, env: str, keys: dict[str, Any]) -> None:
    trainer = record(tmp_path, algo, env, steps=24, **keys)
    for block in judge(trainer, tmp_path).measure(["is", "wis"], gamma=0.9).values():
        assert block["effective_episodes"] == pytest.approx(block["episodes"], rel=1e-3)
        for name in ("is", "wis"):
            assert block[name]["value"] == pytest.approx(block["recorded"]["value"], rel=1e-3, abs=1e-3)


def test_the_ratio_of_a_step_is_the_product_over_the_judged_agents_alone(tmp_path: Path) -> None:
    multiagent = {
        "policies": {"left": {}, "right": {"scripted": "random"}},
        "policy_mapping_fn": {"agent_0": "left", "agent_1": "right"},
    }
    record(tmp_path, steps=8, multiagent=multiagent, seed=3)
    with Trainer("ppo", env="two_step_game", config={**TWO_STEP, "multiagent": multiagent, "seed": 4}) as other:
        found = judge(other, tmp_path)
        decisions = found._decisions("left", greedy=False)
        assert set(decisions.seats.tolist()) == {0}
        assert list(found.judged) == ["left"]
        block = found.measure(["is"], 1.0)["left"]
    weights = np.exp(decisions.strategy.logp - found.data.columns["action_logp"][:, 0]).reshape(-1, 2).prod(axis=1)
    paid = found.data.columns["rewards"][:, 0].reshape(-1, 2)
    assert paid[:, 0].any() == False  # noqa: E712  (nobody is paid in the first step)
    assert block["is"]["value"] == pytest.approx((weights * paid[:, 1]).mean(), rel=1e-5)


def test_recordings_hold_how_likely_random_play_and_epsilon_greedy_play_were(tmp_path: Path) -> None:
    explored = {"exploration_config": {"type": "EpsilonGreedy", "initial_epsilon": 0.5, "final_epsilon": 0.5}}
    trainer = record(tmp_path / "dqn", "dqn", steps=40, **explored)
    data = read_trajectories(find_files(str(tmp_path / "dqn")), trainer.setup.task, normalize_actions=True)
    assert data.columns[TOLD].all()
    # Two actions: the best one has 0.5 + 0.25.
    assert set(np.exp(data.columns["action_logp"]).round(4).ravel().tolist()) == {0.25, 0.75}
    share = (np.exp(data.columns["action_logp"]) > 0.5).mean()
    assert share == pytest.approx(0.75, abs=0.06)


def test_a_table_is_judged_by_what_it_played_while_it_learned(tmp_path: Path) -> None:
    """Its recordings hold epsilon-greedy play of many tables; the last one, played greedily, is worth what it then earns."""
    explored = {"type": "EpsilonGreedy", "initial_epsilon": 0.6, "final_epsilon": 0.2, "epsilon_timesteps": 800}
    keys = {
        "env_config": {"one_hot_state_encoding": False}, "num_envs_per_worker": 10, "timesteps_per_iteration": 200,
        "exploration_config": explored, "seed": 1,
        "evaluation": {"interval": 0, "episodes": 4}, "output": str(tmp_path / "data"),
    }  # fmt: skip
    with Trainer("q_learning", env="two_step_game", config=keys) as trainer:
        for _ in range(4):
            trainer.train()
        truth = trainer.evaluate()["episode_reward_mean"]
    (block,) = judge(trainer, tmp_path / "data").measure(["is", "wis", "dr"], gamma=1.0).values()
    assert block["recorded"]["high"] < truth  # exploring costs
    assert block["wis"]["value"] == pytest.approx(
        truth
    )  # the game has no luck, so what greedy play earns is always the same
    for name in ("is", "dr"):
        assert block[name]["low"] < truth < block[name]["high"]
        assert block[name]["high"] - block[name]["low"] < 3


def late(number: int) -> type[marl.MultiAgentEnv]:
    """A game of three steps for two agents, of whom so many come. Observations are far from zero, and hardly move."""

    class Late(marl.MultiAgentEnv):
        possible_agents: ClassVar = ["a", "b"]

        def __init__(self, config: Any = None) -> None:
            del config
            self.observation_space = spaces.Box(0, 1e7, (2,))
            self.action_space = spaces.Discrete(2)
            self.rng, self.step_number = np.random.default_rng(0), 0

        def _seen(self) -> dict[str, Any]:
            return {name: np.float32(1e6 + self.rng.random(2)) for name in self.possible_agents[:number]}

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
            self.step_number = 0
            return self._seen(), {}

        def step(self, actions: dict[str, Any]) -> tuple[Any, ...]:
            self.step_number += 1
            paid = {name: float(action) for name, action in actions.items()}
            over = self.step_number == 3
            return self._seen(), paid, {"__all__": over}, {"__all__": False}, {}

    return Late


APART = {"multiagent": {"policies": {"pa": {}, "pb": {}}, "policy_mapping_fn": {"a": "pa", "b": "pb"}}}


def test_a_policy_whose_agents_never_came_is_left_out_and_recordings_of_nobody_are_refused(tmp_path: Path) -> None:
    trainer = record(tmp_path, "ppo", late(1), steps=12, **APART)
    assert list(judge(trainer, tmp_path).measure(["is", "wis", "dr"], 1.0)) == ["pa"]
    data = read_trajectories(find_files(str(tmp_path)), trainer.setup.task, normalize_actions=True)
    with pytest.raises(DataError, match="no decision of a policy that is judged: pb"):
        Judge(data, trainer.policies, ["pb"], who_plays_all(trainer.setup, data))


def test_the_model_of_doubly_robust_copes_with_observations_far_from_zero(tmp_path: Path) -> None:
    record(tmp_path, "dqn", late(2), steps=24, seed=1)
    with Trainer("ppo", env=late(2), config={**SMALL, "seed": 2}) as other:
        (block,) = judge(other, tmp_path).measure(["is", "dr"], 1.0).values()
    widths = [block[name]["high"] - block[name]["low"] for name in ("is", "dr")]
    assert widths[1] < 0.03 * widths[0]  # rewards follow from the actions, which a model can know


def test_random_play_says_how_many_actions_were_legal() -> None:
    with Trainer("ppo", env="leduc_poker", config=SMALL) as trainer:
        kind = trainer.setup.task.kinds[0]
    from marl.policies.scripted import RandomPolicy

    legal = np.array([[True, True, False], [True, True, True]])
    inputs = Inputs(np.zeros((2, kind.obs_width), kind.obs_dtype), legal, np.zeros(2, np.int64))
    made = RandomPolicy(kind).act(inputs, np.zeros((2, 0), np.float32), np.random.default_rng(0), explore=False)
    assert made.logp.tolist() == pytest.approx([-np.log(2), -np.log(3)])


# -- refusals ----------------------------------------------------------------------------------------------------------


def learning(folder: Path, **keys: Any) -> Trainer:
    small = {**SMALL, "train_batch_size": 100, "timesteps_per_iteration": 100, "sgd_minibatch_size": 64}
    return Trainer("bc", env="two_step_game", config={**small, "input": str(folder), **keys})


def test_greedy_play_is_refused_before_anything_is_learned(tmp_path: Path) -> None:
    record(tmp_path, explore=False)
    with pytest.raises(
        DataError, match=r"400 of 400 decisions of policy 'default_policy' cannot be weighed.*rollout --expl"
    ):
        learning(tmp_path, off_policy_estimator=["is"])


def test_recordings_of_an_older_marl_do_not_say_it_and_are_refused(tmp_path: Path) -> None:
    record(tmp_path)
    manifest = json.loads((tmp_path / "trajectories.json").read_text())
    manifest = {key: value for key, value in manifest.items() if key not in ("told_logp", "seal")}
    (tmp_path / "trajectories.json").write_text(json.dumps(sealed(manifest)))
    with pytest.raises(DataError, match="do not say how likely they were"):
        learning(tmp_path, off_policy_estimator=["wis"])
    learning(tmp_path).stop()  # to learn from them is as good as before


def test_a_recording_that_was_played_in_two_ways_tells_of_neither(tmp_path: Path) -> None:
    with Trainer("ppo", env="two_step_game", config={**TWO_STEP, "stop": {"training_iteration": 1}}) as trainer:
        trainer.save(tmp_path / "checkpoint")
    told = []
    for place, ways in enumerate([(True,), (False,), (False, True)]):
        options = RolloutOptions(episodes=2, explore=ways, save=tmp_path / str(place))
        play(tmp_path / "checkpoint", options, say=lambda text: None)
        told.append(json.loads((tmp_path / str(place) / "trajectories.json").read_text())["told_logp"])
    assert told == [[0], [], []]


def test_a_policy_with_a_memory_is_refused(tmp_path: Path) -> None:
    trainer = record(tmp_path, use_lstm=True, lstm_cell_size=8)
    with pytest.raises(ConfigError, match="has a memory"):
        judge(trainer, tmp_path)


def test_a_policy_without_densities_is_refused(tmp_path: Path) -> None:
    record(tmp_path, "ppo", "Pendulum-v1", steps=24, **PENDULUM)
    with Trainer("td3", env="Pendulum-v1", config={**SMALL, "horizon": 20}) as trainer:
        found = judge(trainer, tmp_path)
        with pytest.raises(ConfigError, match="cannot say how likely an action"):
            found.measure(["is"], 1.0)


def test_densities_in_other_units_are_refused(tmp_path: Path) -> None:
    record(tmp_path, "ppo", "Pendulum-v1", steps=24, **PENDULUM)
    keys = {**SMALL, **PENDULUM, "normalize_actions": False}
    with Trainer("ppo", env="Pendulum-v1", config=keys) as trainer, pytest.raises(DataError, match="normalize_actions"):
        judge(trainer, tmp_path)


def test_unknown_names_and_missing_recordings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"off_policy_estimator.*needs input"):
        Trainer("bc", env="two_step_game", config={**SMALL, "off_policy_estimator": ["is"]})
    record(tmp_path)
    with pytest.raises(UnknownNameError, match=r"unknown off_policy_estimator 'wiz'.*Did you mean 'wis'"):
        learning(tmp_path, off_policy_estimator=["wiz"])


def test_rllibs_name_is_answered_with_ours() -> None:
    with pytest.raises(ConfigError, match=r"off_policy_estimator: \[is, wis, dr\]"):
        Trainer("bc", env="two_step_game", config={**SMALL, "input_evaluation": ["is"]})


# -- runs and commands -------------------------------------------------------------------------------------------------


def test_a_run_reports_estimates_every_few_iterations_and_at_its_end(tmp_path: Path) -> None:
    record(tmp_path / "data")
    keys = {"off_policy_estimator": ["is", "dr"], "off_policy_interval": 2, "stop": {"training_iteration": 3}}
    with learning(tmp_path / "data", **keys) as trainer:
        results = [trainer.train() for _ in range(3)]
        trainer.save(tmp_path / "checkpoint")
    assert ["off_policy_estimator" in result for result in results] == [False, True, True]
    block = results[-1]["off_policy_estimator"]["default_policy"]
    assert set(block) == {"recorded", "is", "dr", "episodes", "effective_episodes"}
    assert block["is"]["low"] < block["is"]["value"] < block["is"]["high"]
    # The same from the checkpoint: by the function, and by the command.
    found = marl.estimate_checkpoint(tmp_path / "checkpoint", tmp_path / "data", ["is", "dr"])
    assert found["default_policy"] == block
    said = marl_command(
        "estimate", str(tmp_path / "checkpoint"), str(tmp_path / "data"), "--by", "is", "--by", "dr", "--json"
    )
    assert json.loads(said.out)["policies"]["default_policy"] == block


def test_greedy_judges_the_likeliest_action(tmp_path: Path) -> None:
    trainer = record(tmp_path)
    found = judge(trainer, tmp_path)
    drawn, likeliest = (found._decisions("default_policy", greedy).strategy for greedy in (False, True))
    assert set(np.exp(likeliest.logp).tolist()) == {0.0, 1.0}
    assert (likeliest.chances.argmax(axis=1) == drawn.chances.argmax(axis=1)).all()


def test_own_data_with_logp_can_be_judged_and_half_told_data_are_refused(tmp_path: Path) -> None:
    observations = [[0.0, 0.1, 0.0, -0.1], [0.0, 0.3, 0.0, -0.4], [0.0, 0.5, 0.0, -0.7]]
    told = {"obs": observations, "actions": [1, 0], "rewards": [1.0, 3.0], "logp": [np.log(0.25), np.log(0.5)]}
    silent = {key: column for key, column in told.items() if key != "logp"}
    with pytest.raises(DataError, match="1 of 2 agents' episodes have a column 'logp'"):
        marl.write_trajectories(tmp_path / "half", "CartPole-v1", [told, silent])
    with pytest.raises(DataError, match="2 actions need 2 finite numbers of logp"):
        marl.write_trajectories(tmp_path / "bad", "CartPole-v1", [{**told, "logp": [np.nan, 0.0]}])
    marl.write_trajectories(tmp_path / "told", "CartPole-v1", [told, told])
    with Trainer("ppo", env="CartPole-v1", config=SMALL) as trainer:
        found = judge(trainer, tmp_path / "told")
        chances = np.exp(found._decisions("default_policy", greedy=False).strategy.logp)
        value = found.measure(["is"], 1.0)["default_policy"]["is"]["value"]
    first, second = chances[0] / 0.25, chances[1] / 0.5
    assert value == pytest.approx(first * 1.0 + first * second * 3.0, rel=1e-5)
