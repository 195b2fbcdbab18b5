"""Routing to learners, freezing, loading, evaluation, numbers in results, and failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.qmix.learner import QmixLearner
from marl.errors import CheckpointError, ConfigError, EnvTimeoutError, TrainingError
from marl.runs.checkpoint import find_checkpoint, has_part
from marl.runs.result import look_up
from marl.scenario.load import compose
from marl.training.trainer import Trainer
from tests.small_envs import Scripted, Step
from tests.training.trees import differences

PPO = {
    "train_batch_size": 64,
    "sgd_minibatch_size": 32,
    "num_sgd_iter": 2,
    "num_envs_per_worker": 4,
    "fcnet_hiddens": [16],
}
QMIX = {
    "learning_starts": 16,
    "train_batch_size": 16,
    "timesteps_per_iteration": 64,
    "fcnet_hiddens": [16],
    "num_envs_per_worker": 4,
}
TRAFFIC = {
    **PPO,
    "env": "traffic",
    "env_config": {"max_cars": 4, "lights": 1, "episode_length": 30},
    "policies": {
        "car1": {"gamma": 0.85},
        "car2": {"gamma": 0.99},
        "traffic_light": {"algo": "dqn", "learning_starts": 10, "train_batch_size": 8},
    },
    "policy_mapping_fn": {"car_*": ["car1", "car2"], "traffic_light_*": "traffic_light"},
    "evaluation": {"interval": 0},
}


def test_different_families_train_side_by_side_and_every_policy_changes() -> None:
    with Trainer("ppo", config=TRAFFIC) as trainer:
        before = trainer.get_weights()
        results = [trainer.train() for _ in range(4)]
        after = trainer.get_weights()
        assert [type(learner) for learner in trainer.learners] == [
            CentralCriticLearner,
            CentralCriticLearner,
            QmixLearner,
        ]
        gammas = {name: trainer.setup.roles[name].config.gamma for name in before}
    assert gammas == {"car1": 0.85, "car2": 0.99, "traffic_light": 0.99}
    assert all(differences(before[name], after[name]) for name in before)
    stats = results[-1]["info"]["learner"]
    assert set(stats) == {"car1", "car2", "traffic_light"}
    assert "mean_q" in stats["traffic_light"]["learner_stats"]
    assert "entropy" in stats["car1"]["learner_stats"]


def test_a_frozen_policy_does_not_change_by_one_bit_and_goes_on_when_thawed() -> None:
    with Trainer("ppo", config={**TRAFFIC, "policies_to_train": ["car1"]}) as trainer:
        before = trainer.get_weights()
        result = trainer.train()
        frozen = trainer.get_weights()
        assert differences(before["car1"], frozen["car1"])
        assert differences([before["car2"], before["traffic_light"]], [frozen["car2"], frozen["traffic_light"]]) == []
        assert set(result["info"]["learner"]) == {"car1"}
        trainer.set_policies_to_train(["car2", "traffic_light"])
        for _ in range(2):
            trainer.train()
        thawed = trainer.get_weights()
        assert differences(frozen["car1"], thawed["car1"]) == []
        assert differences(frozen["car2"], thawed["car2"])
        assert differences(frozen["traffic_light"], thawed["traffic_light"])


def test_freezing_one_of_two_mixed_policies_leaves_it_alone() -> None:
    keys = {**QMIX, "env": "two_step_game", "policy_mapping_fn": "per_agent", "policies_to_train": ["agent_1"]}
    with Trainer("qmix", config=keys) as trainer:
        assert len(trainer.learners) == 1
        before = trainer.get_weights()
        trainer.train()
        after = trainer.get_weights()
    assert differences(before["agent_0"], after["agent_0"]) == []
    assert differences(before["agent_1"], after["agent_1"])


def test_who_learns_may_be_decided_by_a_function() -> None:
    keys = {**TRAFFIC, "policies_to_train": lambda policy, batch: policy == "car2" and batch.env_steps > 0}
    with Trainer("ppo", config=keys) as trainer:
        assert trainer.train()["policies_to_train"] == ["car2"]


def test_a_policy_starts_from_a_checkpoint_of_another_run(tmp_path: Path) -> None:
    with Trainer("ppo", config={**PPO, "env": "CartPole-v1"}) as first:
        first.train()
        path = first.save(tmp_path / "first")
        weights = first.get_policy().get_weights()
    for source in (str(path), f"{path}#default_policy"):
        with Trainer("ppo", config={**PPO, "env": "CartPole-v1", "load": {"default_policy": source}}) as second:
            assert differences(second.get_policy().get_weights(), weights) == []
    with pytest.raises(CheckpointError, match=r"model.network.weights.0 has shape"):
        Trainer(
            "ppo", config={**PPO, "env": "CartPole-v1", "fcnet_hiddens": [8], "load": {"default_policy": str(path)}}
        )
    with pytest.raises(CheckpointError, match=r"has no policy 'x'"):
        Trainer("ppo", config={**PPO, "env": "CartPole-v1", "load": {"default_policy": f"{path}#x"}})
    with pytest.raises(CheckpointError, match=r"nowhere"):
        Trainer("ppo", config={**PPO, "env": "CartPole-v1", "load": {"default_policy": "nowhere"}})


def paying(_: Any) -> Scripted:
    """Three steps that pay a_0 1, 2, 3 and a_1 10 in the second."""
    steps = [
        Step(["a_0", "a_1"], {"a_0": 1}),
        Step(["a_0"], {"a_0": 2, "a_1": 10}, terminated=["a_1"]),
        Step([], {"a_0": 3}, ["__all__"], last=["a_0"]),
    ]
    return Scripted(["a_0", "a_1"], steps, agents=["a_0", "a_1"])


def test_rewards_lengths_and_counts_in_a_result_are_the_hand_sums() -> None:
    keys = {
        **PPO,
        "env": paying,
        "policies": ["p"],
        "policy_mapping_fn": "shared",
        "evaluation": {"interval": 1, "episodes": 3},
    }
    with Trainer("ppo", config={**keys, "train_batch_size": 24, "num_envs_per_worker": 2}) as trainer:
        result = trainer.train()
    assert result["timesteps_total"] == 24
    assert result["agent_timesteps_total"] == 24 // 3 * 5
    assert result["episodes_this_iter"] == 8
    for block in (result, result["evaluation"]):
        assert block["episode_reward_mean"] == block["episode_reward_min"] == block["episode_reward_max"] == 16.0
        assert block["policy_reward_mean"] == {"p": 16.0}  # the sum over both agents that it played
        assert block["agent_reward_mean"] == {"a_0": 6.0, "a_1": 10.0}
        assert block["episode_len_mean"] == 3.0
    assert result["hist_stats"]["episode_lengths"] == [3] * 8
    assert result["info"]["num_agent_steps_trained"] == 40


def test_separate_policies_get_the_rewards_of_their_own_agents() -> None:
    with Trainer(
        "ppo", config={**PPO, "env": paying, "policy_mapping_fn": "per_agent", "evaluation": {"interval": 0}}
    ) as trainer:
        assert trainer.train()["policy_reward_mean"] == {"a_0": 6.0, "a_1": 10.0}


def test_numbers_before_the_first_ended_episode_are_null() -> None:
    keys = {**PPO, "env": "Pendulum-v1", "train_batch_size": 16, "evaluation": {"interval": 0}}
    with Trainer("ppo", config=keys) as trainer:
        result = trainer.train()
    assert result["episode_reward_mean"] is None
    assert result["episodes_this_iter"] == 0


@pytest.mark.parametrize(
    "action", [spaces.MultiDiscrete([2, 3]), spaces.Box(-2, 2, (2,), np.float32), spaces.Discrete(3, start=5)]
)
@pytest.mark.parametrize("algo", ["pg", "a2c", "ppo"])
def test_every_action_space_trains_and_the_env_gets_members_of_it(algo: str, action: Any) -> None:
    class Typed(Scripted):
        def action_space(self, agent: str) -> Any:
            return action

        def step(self, actions: Any) -> Any:
            assert all(action.contains(a) for a in actions.values()), actions
            return super().step(actions)

    env = lambda _: Typed(["a_0"], [Step(["a_0"], {"a_0": 1}), Step([], {"a_0": 1}, ["__all__"])], agents=["a_0"])  # noqa: E731
    keys = {
        "env": env,
        "train_batch_size": 32,
        "num_envs_per_worker": 4,
        "fcnet_hiddens": [8],
        "evaluation": {"interval": 1, "episodes": 2},
    }
    with Trainer(algo, config=keys) as trainer:
        before = trainer.get_policy().get_weights()
        assert trainer.train()["evaluation"]["episode_reward_mean"] == 2.0
        assert differences(before, trainer.get_policy().get_weights())
        assert action.contains(trainer.compute_action(np.zeros(2, np.float32)))


def test_an_evaluation_depends_on_seed_and_iteration_alone() -> None:
    keys = {**PPO, "env": "CartPole-v1", "evaluation": {"interval": 0, "episodes": 7}}
    with Trainer("ppo", config=keys) as a, Trainer("ppo", config={**keys, "num_envs_per_worker": 2}) as b:
        assert a.evaluate()["hist_stats"] == b.evaluate()["hist_stats"]
        assert a.evaluate()["hist_stats"] == a.evaluate()["hist_stats"]


def test_evaluation_may_have_its_own_opponents_and_env() -> None:
    keys = {
        **PPO,
        "env": "matrix_game",
        "env_config": {"game": "rock_paper_scissors"},
        "policies": {
            "learner": {},
            "rock": {"scripted": {"name": "fixed", "action": 0}},
            "paper": {"scripted": {"name": "fixed", "action": 1}},
        },
        "policy_mapping_fn": {"player_0": "paper", "player_1": ["learner", "rock"]},
        "evaluation": {
            "interval": 1,
            "episodes": 4,
            "policy_mapping_fn": {"player_0": "paper", "player_1": "rock"},
            "env_config": {"repetitions": 3},
        },
    }
    with Trainer("ppo", config=keys) as trainer:
        result = trainer.train()
    assert result["evaluation"]["policy_reward_mean"]["paper"] == 3.0
    assert result["evaluation"]["policy_reward_mean"]["learner"] is None


def test_the_best_evaluation_is_kept_and_older_checkpoints_hold_only_what_is_needed_to_play(tmp_path: Path) -> None:
    keys = {
        **PPO,
        "env": "CartPole-v1",
        "checkpoint_freq": 1,
        "keep_checkpoints": 3,
        "evaluation": {"interval": 1, "episodes": 2},
    }
    with Trainer("ppo", config=keys, directory=tmp_path) as trainer:
        results = [trainer.train() for _ in range(4)]
        folders = sorted(p.name for p in (tmp_path / "checkpoints").iterdir())
        best = max(r["evaluation"]["episode_reward_mean"] for r in results)
        assert trainer.best_evaluation == best == results[-1]["best_evaluation"]
    assert folders == ["best", "checkpoint_000002", "checkpoint_000003", "checkpoint_000004"]
    newest = find_checkpoint(tmp_path)
    assert newest.name == "checkpoint_000004"
    for resumable in ("best", "checkpoint_000003", "checkpoint_000004"):
        assert has_part(tmp_path / "checkpoints" / resumable, "learners")
    older = tmp_path / "checkpoints" / "checkpoint_000002"
    assert not has_part(older, "learners")
    beside = "these hold everything: checkpoint_000003, checkpoint_000004, best"
    with pytest.raises(CheckpointError, match=f"holds only what is needed to play.*{beside}"):
        Trainer.from_checkpoint(older)
    assert not list(tmp_path.rglob("*.pkl"))


def test_a_trainer_can_be_rebuilt_from_a_checkpoint_alone(tmp_path: Path) -> None:
    with Trainer("qmix", env="two_step_game", config=QMIX) as trainer:
        trainer.train()
        trainer.save(tmp_path / "here")
        expected = trainer.train()
    with Trainer.from_checkpoint(tmp_path / "here") as again:
        result = again.train()
    assert result["hist_stats"] == expected["hist_stats"]


def test_names_in_a_checkpoint_are_only_loaded_from_allowed_modules(tmp_path: Path) -> None:
    with Trainer("ppo", env=f"{__name__}:paying", config=PPO) as trainer:
        trainer.save(tmp_path / "here")
    with pytest.raises(ConfigError, match=r"--allow tests"):
        Trainer.from_checkpoint(tmp_path / "here")
    Trainer.from_checkpoint(tmp_path / "here", allow=["tests"]).stop()


def test_python_objects_that_cannot_be_found_again_are_said_and_can_be_given_again(tmp_path: Path) -> None:
    with Trainer("ppo", env=lambda _: paying(None), config=PPO, directory=tmp_path / "run") as trainer:
        assert any("cannot be replayed" in note for note in trainer.notes)
        trainer.save(tmp_path / "here")
    with pytest.raises(CheckpointError, match=r"cannot be found by name"):
        Trainer.from_checkpoint(tmp_path / "here")
    Trainer.from_checkpoint(tmp_path / "here", env=lambda _: paying(None), allow=["tests"]).stop()


def poisonous(_: Any) -> Scripted:
    class Poison(Scripted):
        total = 0

        def step(self, actions: Any) -> Any:
            Poison.total += 1
            result = super().step(actions)
            return result._replace(rewards={"a_0": 1e30}) if Poison.total > 200 else result

    return Poison(["a_0"], [Step(["a_0"], {"a_0": 1}), Step([], {"a_0": 1}, ["__all__"])], agents=["a_0"])


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_loss_that_is_no_number_stops_the_run_and_the_last_checkpoint_is_kept(algo: str, tmp_path: Path) -> None:
    # Rewards in a unit of their own would be numbers like any others.
    of_algo = PPO if algo == "ppo" else {**QMIX, "normalize_rewards": False}
    keys = {**of_algo, "env": poisonous, "checkpoint_freq": 1, "evaluation": {"interval": 0}}
    with Trainer(algo, config=keys, directory=tmp_path) as trainer:
        with pytest.raises(TrainingError, match=r"became (nan|inf)"):
            for _ in range(20):
                trainer.train()
        assert all(np.isfinite(a).all() for a in trainer.get_policy().get_weights().values())
    assert find_checkpoint(tmp_path).name == f"checkpoint_{trainer.iteration:06d}"


class Sleepy(Scripted):
    def step(self, actions: Any) -> Any:
        import time

        time.sleep(5)
        return super().step(actions)


def test_an_env_that_hangs_is_stopped_by_env_timeout_s() -> None:
    env = lambda _: Sleepy(["a_0"], [Step([], {}, ["__all__"])], agents=["a_0"])  # noqa: E731
    with (
        Trainer("ppo", env=env, config={**PPO, "env_timeout_s": 0.1}) as trainer,
        pytest.raises(EnvTimeoutError, match=r"env_timeout_s = 0.1"),
    ):
        trainer.train()


def test_rewards_may_be_shared_in_a_group() -> None:
    keys = {
        **PPO,
        "env": paying,
        "groups": {"g": ["a_*"]},
        "share_reward": True,
        "gae_lambda": 1.0,
        "gamma": 1.0,
    }
    with Trainer("mappo", config=keys) as trainer:
        learner = trainer.learners[0]
        assert isinstance(learner, CentralCriticLearner)
        batch = trainer.workers.collect(3).batch
        rows = learner._with_advantages("default_policy", batch)
        returns = rows["value_targets"].reshape(-1)
    # a_0 sees 16, 15, 3 of the team's reward to come; a_1, which ends in the second step, 13 and 12.
    assert sorted(returns.tolist()) == pytest.approx([3] * 4 + [12] * 4 + [13] * 4 + [15] * 4 + [16] * 4, abs=1e-3)


def test_run_goes_to_the_stop_condition_and_leaves_a_complete_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARL_RESULTS_DIR", str(tmp_path))
    with Trainer("ppo", env="two_step_game", config={**PPO, "stop": {"training_iteration": 3}}) as trainer:
        result = trainer.run()
        directory = trainer.store.directory
    assert result["training_iteration"] == 3
    assert result["done"]
    assert "evaluation" in result
    assert directory is not None
    names = {p.name for p in directory.iterdir()}
    assert {"params.json", "params.yaml", "result.json", "progress.csv", "learning_curve.png", "checkpoints"} <= names
    assert any(name.startswith("events.out.tfevents") for name in names)


def test_a_run_replays_from_its_params_file_bit_for_bit(tmp_path: Path) -> None:
    with Trainer("ppo", config=TRAFFIC, directory=tmp_path) as trainer:
        first = trainer.train()
    from marl.scenario.load import load_scenario

    with Trainer(scenario=load_scenario(tmp_path / "params.yaml")) as again:
        second = again.train()
    assert first["hist_stats"] == second["hist_stats"]
    assert first["info"]["learner"] == second["info"]["learner"]


def test_the_longest_matching_key_is_looked_up() -> None:
    result = {"evaluation": {"policy_reward_mean": {"team.red": 3.0}}, "x": None}
    assert look_up(result, "evaluation.policy_reward_mean.team.red") == 3.0
    assert look_up(result, "evaluation.nothing") is None
    assert look_up(result, "x") is None


def test_flat_and_sectioned_keys_give_the_same_scenario() -> None:
    flat = compose(
        {"env": "two_step_game", "algo": "qmix", "lr": 0.01, "fcnet_hiddens": [8], "groups": {"g": ["agent_*"]}}
    )
    nested = compose({"env": "two_step_game", "algo": {"name": "QMIX", "lr": 0.01}, "model": {"fcnet_hiddens": [8]}, "multiagent": {"groups": {"g": ["agent_*"]}}})  # fmt: skip
    assert flat.preset == nested.preset
    assert flat.algo_keys == nested.algo_keys
    assert (flat.model, flat.multiagent) == (nested.model, nested.multiagent)
