"""Deterministic actor-critics in training: who learns what from whom, freezing, resuming, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from marl.algos.custom_loss import Loss
from marl.envs.base import StepResult
from marl.errors import ConfigError
from marl.training.trainer import Trainer
from tests.algos.zoo import SMALL, TURNS, Zoo, filled, learner_of
from tests.small_envs import Scripted
from tests.training.test_exact_resume import assert_resume_is_exact
from tests.training.trees import differences

pytestmark = pytest.mark.slow

# -- training --------------------------------------------------------------------------------------------------------


def test_the_actor_and_the_targets_move_every_second_update_of_td3() -> None:
    with filled("td3", "Pendulum-v1", policy_delay=2, num_envs_per_worker=1) as trainer:
        learner = learner_of(trainer)
        assert learner.counters["num_updates"] // 2 == learner.counters["num_actor_updates"] > 3
        pupil = learner.actor_critics["default_policy"]
        pupil.updates = 0
        before, critics = pupil.target_critics.state_dict(), pupil.critics.state_dict()
        before, critics = [{n: v.clone() for n, v in state.items()} for state in (before, critics)]
        weights = pupil.actor.get_weights()
        learner._train(pupil)
        assert all(torch.equal(v, before[n]) for n, v in pupil.target_critics.state_dict().items())
        assert differences(pupil.actor.get_weights(), weights) == []
        assert any(not torch.equal(v, critics[n]) for n, v in pupil.critics.state_dict().items())
        learner._train(pupil)
        tau = pupil.config.tau
        for name, value in pupil.target_critics.state_dict().items():
            assert torch.allclose(value, before[name] + tau * (pupil.critics.state_dict()[name] - before[name]))
        assert differences(pupil.actor.get_weights(), weights)


def test_the_actors_step_leaves_the_critics_gradient_alone() -> None:
    with filled("ddpg", "Pendulum-v1") as trainer:
        pupil = learner_of(trainer).actor_critics["default_policy"]
        pupil.optimisers["critic"].zero()
        t = pupil.transitions(pupil.sample(np.random.default_rng(0)))
        learner_of(trainer)._improve_actor(pupil, t, pupil.view(t.now, pupil.view.played(t)), 1.0)
        assert pupil.optimisers["critic"].grad.abs().max() == 0
        assert pupil.optimisers["actor"].grad.abs().max() > 0


def test_step_sizes_of_actor_and_critic_may_differ() -> None:
    with filled("ddpg", "Pendulum-v1", lr=0.25, actor_lr=0.5) as trainer:
        assert learner_of(trainer).actor_critics["default_policy"].step_sizes(0) == {"actor": 0.5, "critic": 0.25}
    with filled("ddpg", "Pendulum-v1", lr_schedule=[[0, 1.0], [100, 0.0]], critic_lr=0.5) as trainer:
        assert learner_of(trainer).actor_critics["default_policy"].step_sizes(50) == {"actor": 0.5, "critic": 0.5}
        assert learner_of(trainer).actor_critics["default_policy"].step_sizes(100) == {"actor": 0.0, "critic": 0.5}


def test_a_frozen_policy_changes_by_nothing_while_the_others_learn() -> None:
    keys = {"policy_mapping_fn": "per_agent", "policies_to_train": ["wolf", "mixed"]}
    with Trainer("maddpg", config={**SMALL, "env": Zoo, **keys}) as trainer:
        learner, before = learner_of(trainer), trainer.get_weights()
        state = learner.actor_critics["sheep"].state_dict()
        result = trainer.train()
        after = trainer.get_weights()
        assert differences(before["sheep"], after["sheep"]) == []
        assert differences(state, learner.actor_critics["sheep"].state_dict()) == []
        assert len(learner.actor_critics["sheep"].replay) == 0
        assert differences(before["wolf"], after["wolf"])
        assert differences(before["mixed"], after["mixed"])
        assert set(result["info"]["learner"]) == {"wolf", "mixed"}
        trainer.set_policies_to_train(["sheep"])
        trainer.train()
        assert differences(after["sheep"], trainer.get_weights()["sheep"])
        assert differences(after["wolf"], trainer.get_weights()["wolf"]) == []


def test_each_opponent_learns_from_its_own_reward_and_a_team_from_the_sum() -> None:
    with filled("maddpg", Zoo, policy_mapping_fn="per_agent") as trainer:
        replays = {name: pupil.replay for name, pupil in learner_of(trainer).actor_critics.items()}
        wolf, sheep = (replays[n].columns["rewards"][: len(replays[n])] for n in ("wolf", "sheep"))
        assert wolf.tolist() == pytest.approx((-sheep).tolist())
        assert abs(wolf).max() > 0
    with filled("maddpg", Zoo, policy_mapping_fn="per_agent", share_reward=True, gamma=1.0) as trainer:
        replay = (
            learner_of(trainer).actor_critics["wolf"].replay
        )  # wolf and sheep cancel out; the mixed one is paid the time
        rewards, steps = (replay.columns[name][: len(replay)] for name in ("rewards", "t"))
        assert rewards.tolist() == pytest.approx((steps + 1.0).tolist())


class Hold(Loss):
    """Forget the critic: hold the network's outputs at 1."""

    def __call__(self, loss: torch.Tensor, batch: Any) -> torch.Tensor:
        out: torch.Tensor = self.policy(batch["obs"], batch["agent_index"])
        return 0.0 * loss + (out - 1.0).square().mean()

    def stats(self) -> dict[str, float]:
        return {"held": 7.0}


def test_a_custom_loss_moves_the_actor_and_adds_its_statistics() -> None:
    keys = {"custom_loss": f"{__name__}:Hold", "lr": 0.02, "timesteps_per_iteration": 200}
    with filled("ddpg", "Pendulum-v1", **keys) as trainer:
        assert learner_of(trainer).actor_critics["default_policy"].custom_loss is not None
        assert trainer.compute_action(np.array([1.0, 0.0, 0.0], np.float32), explore=False) == pytest.approx(
            2 * np.tanh(1.0), abs=0.3
        )
        assert trainer.train()["info"]["learner"]["default_policy"]["learner_stats"]["held"] == 7.0


RESUMED = {**SMALL, "evaluation": {"interval": 2, "episodes": 2}, "pool": "in_process", "num_workers": 0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algo", "keys"),
    [
        ("maddpg", {"env": "two_step_game", "prioritized_replay": True, "n_step": 2}),
        ("td3", {"env": "Pendulum-v1", "observation_filter": "MeanStdFilter"}),
        ("maddpg", {"env": "traffic", "env_config": {"max_cars": 4}}),
    ],
    ids=["two_step", "pendulum", "traffic"],
)
def test_save_and_restore_in_the_middle_changes_nothing(algo: str, keys: dict[str, Any], tmp_path: Path) -> None:
    assert_resume_is_exact(algo, {**RESUMED, **keys}, tmp_path)


def test_envs_with_turns_masks_and_agents_that_come_and_go_are_learned_from() -> None:
    turns = {"env": lambda _: Scripted(["a_0"], TURNS, agents=["a_0", "a_1"]), "timesteps_per_iteration": 80}
    tictactoe = {"env": "pettingzoo:classic/tictactoe_v3"}
    cars = {"env": "traffic", "env_config": {"max_cars": 4}}
    for env in (turns, tictactoe, cars):
        with Trainer("maddpg", config={**SMALL, **env}) as trainer:
            before = trainer.get_weights()
            stats = trainer.train()["info"]["learner"]
            assert set(stats) == set(trainer.policies)
            assert all(np.isfinite(list(row["learner_stats"].values())).all() for row in stats.values())
            assert all(differences(before[name], weights) for name, weights in trainer.get_weights().items())


def test_twins_are_what_tells_td3_from_ddpg() -> None:
    with pytest.raises(ConfigError, match=r"ddpg has twin_q False, not True. Use algo td3"):
        Trainer("ddpg", env="Pendulum-v1", config={"twin_q": True})


def test_a_memory_is_refused_before_anything_is_played() -> None:
    with pytest.raises(
        ConfigError, match=r"memory of 512 numbers, but ddpg, td3 and maddpg learn from single decisions"
    ):
        Trainer("maddpg", env="two_step_game", config={"use_lstm": True})


@pytest.mark.slow
def test_ddpg_learns_to_go_where_it_is_paid() -> None:
    class Target(Zoo):
        possible_agents = ("wolf",)

        def _obs(self) -> dict[str, Any]:
            return {"wolf": np.array([0.5, -0.5], np.float32)}

        def step(self, actions: dict[str, Any]) -> StepResult:
            self.t += 1
            miss = float(np.square(actions["wolf"] - np.array([1.5, -1.5])).sum())
            return StepResult(self._obs(), {"wolf": -miss}, {}, {"__all__": self.t == 4}, {})

    keys = {**SMALL, "lr": 0.01, "tau": 0.1, "gamma": 0.0, "fcnet_hiddens": [32], "train_batch_size": 64}
    with Trainer("ddpg", config={**keys, "env": Target, "timesteps_per_iteration": 1_000}) as trainer:
        trainer.train()
        obs = np.array([0.5, -0.5], np.float32)
        assert trainer.compute_action(obs, explore=False) == pytest.approx([1.5, -1.5], abs=0.3)
