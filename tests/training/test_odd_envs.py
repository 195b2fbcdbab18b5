"""Odd envs, rules and endings: what must hold when an env is at the edge of its contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.algos.team_rows import team_rows
from marl.data.returns import gae, returns_to_go
from marl.envs.games.two_step import TwoStepGames
from marl.envs.vector.vector_env import DictVector
from marl.errors import ConfigError, EnvError, SpaceMismatchError, UserError
from marl.training.trainer import Trainer
from tests.small_envs import ACT, OBS, Scripted, Step, worker_for
from tests.training.trees import differences

PPO = {
    "train_batch_size": 200,
    "sgd_minibatch_size": 64,
    "num_sgd_iter": 1,
    "fcnet_hiddens": [8],
    "evaluation": {"interval": 0},
}


QMIX = {
    "learning_starts": 8,
    "train_batch_size": 8,
    "timesteps_per_iteration": 40,
    "fcnet_hiddens": [8],
    "evaluation": {"interval": 0},
}


def test_a_round_without_a_closed_decision_does_not_stop_on_policy_learners() -> None:
    keys = {**PPO, "env": "CartPole-v1", "batch_mode": "complete_episodes", "rollout_fragment_length": 5}
    with Trainer("ppo", config=keys) as trainer:
        assert trainer.train()["info"]["num_agent_steps_trained"] > 100
    drawn = {**PPO, "env": "traffic", "policies": ["car1", "car2", "light"], "rollout_fragment_length": 1}
    drawn |= {"policy_mapping_fn": {"car_*": ["car1", "car2"], "*": "light"}}
    with Trainer("ppo", config=drawn) as trainer:
        assert set(trainer.train()["info"]["learner"]) == {"car1", "car2", "light"}


def blind_env(_: Any) -> Scripted:
    steps = [Step(["a_0"], {"a_0": 1}), Step(["a_0"], {"a_0": 1}), Step([], {"a_0": 100}, truncated=["a_0"], last=[])]
    return Scripted(["a_0"], steps, agents=["a_0"])


def test_a_lost_decision_does_not_join_two_episodes_into_one_advantage() -> None:
    batch = worker_for(blind_env).collect(6).batch
    zeros = np.zeros_like(batch.rewards)
    advantages = gae(batch, zeros, zeros, batch.rewards, 1.0, 1.0)
    assert advantages[:, 0, 0][batch.active[:, 0, 0]].tolist() == [2.0, 1.0, 2.0, 1.0]


def test_returns_hold_what_was_paid_for_a_decision_that_cannot_be_trained_on() -> None:
    batch = worker_for(blind_env).collect(6).batch
    returns = returns_to_go(batch, batch.rewards, 1.0)
    assert returns[:, 0, 0][batch.active[:, 0, 0]].tolist() == [102.0, 101.0, 102.0, 101.0]


@pytest.mark.parametrize("algo", ["pg", "marwil"])
def test_policy_gradients_weigh_decisions_by_the_whole_return(algo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import marl.algos.central_critic.advantages as central_critic
    import marl.algos.marwil.learner as marwil

    seen: list[float] = []

    def spy(batch: Any, rewards: Any, gamma: float) -> Any:
        found = returns_to_go(batch, rewards, gamma)
        seen.extend(found[batch.active].tolist())
        return found

    for module in (central_critic, marwil):
        monkeypatch.setattr(module, "returns_to_go", spy)
    keys = {
        "env": blind_env,
        "train_batch_size": 6,
        "gamma": 1.0,
        "fcnet_hiddens": [4],
        "evaluation": {"interval": 0},
    }
    with Trainer(algo, config=keys) as trainer:
        trainer.train()
    assert set(seen) == {102.0, 101.0}


def test_a_team_cut_off_without_a_last_observation_is_left_out() -> None:
    rows = team_rows(worker_for(blind_env).collect(6).batch, [0], 1.0)
    assert sorted(rows["t"].tolist()) == [0, 0, 1, 1]
    assert not rows["terminateds"].any()


class TwoKinds(Scripted):
    """Wolves with three actions and one late sheep with two."""

    def action_space(self, agent: str) -> Any:
        return ACT if agent.startswith("wolf") else SHEEP_ACTIONS

    def observation_space(self, agent: str) -> Any:
        return OBS if agent.startswith("wolf") else SHEEP_VIEW

    def _obs(self, agents: Any) -> dict[str, Any]:
        return {a: np.full(self.observation_space(a).shape, self.t, np.float32) for a in agents}


SHEEP_ACTIONS, SHEEP_VIEW = spaces.Discrete(2), spaces.Box(-9, 9, (5,), np.float32)


@pytest.mark.parametrize("algo", ["qmix", "vdn", "mappo"])
def test_a_group_of_two_kinds_with_unborn_members_trains(algo: str) -> None:
    steps = [Step(["wolf_1"]), Step(["wolf_1", "sheep_1"], {"wolf_1": 1}), Step([], {"sheep_1": 1}, ["__all__"])]
    make = lambda _: TwoKinds(["wolf_1"], steps, patterns={"wolf_*": 2, "sheep_*": 2})  # noqa: E731
    keys = {**(PPO if algo == "mappo" else QMIX), "env": make, "groups": {"all": ["wolf_*", "sheep_*"]}}
    with Trainer(algo, config=keys) as trainer:
        before = trainer.get_weights()
        for _ in range(2):
            trainer.train()
        after = trainer.get_weights()
    assert set(before) == {"wolf", "sheep"}
    assert all(differences(before[name], after[name]) for name in before)


def test_scripted_box_actions_reach_the_env_as_they_were_said() -> None:
    seen: list[float] = []

    class Box(Scripted):
        space = spaces.Box(-2, 2, (1,), np.float32)

        def action_space(self, agent: str) -> Any:
            return self.space

        def step(self, actions: Any) -> Any:
            seen.extend(float(a[0]) for a in actions.values())
            return super().step(actions)

    for scripted, expected in (
        ({"name": "fixed", "action": [0.5]}, 0.5),
        ({"name": lambda obs: np.array([-1.5])}, -1.5),
    ):
        seen.clear()
        make = lambda _: Box(["a_0"], [Step([], {}, ["__all__"])], agents=["a_0"])  # noqa: E731
        keys = {**PPO, "env": make, "policies": {"p": {"scripted": scripted}}, "timesteps_per_iteration": 8}
        with Trainer("ppo", config=keys) as trainer:
            trainer.train()
            assert float(trainer.compute_action(np.zeros(2, np.float32))[0]) == pytest.approx(expected)
        assert seen == pytest.approx([expected] * len(seen))


def test_a_mask_on_coordinates_is_refused_with_the_remedy() -> None:
    class Odd(Scripted):
        space = spaces.Dict({"observation": OBS, "action_mask": spaces.MultiBinary(2)})

        def observation_space(self, agent: str) -> Any:
            return self.space

        def action_space(self, agent: str) -> Any:
            return spaces.Box(-1, 1, (2,))

    with pytest.raises(SpaceMismatchError, match="Masks work with Discrete choices"):
        DictVector([Odd(["a_0"], [], agents=["a_0"])], "odd")


def test_an_env_where_nobody_is_left_and_nothing_ends_is_found_out() -> None:
    class Empty(Scripted):
        def step(self, actions: Any) -> Any:
            return {}, {}, {"a_0": True, "__all__": False}, {}, {}

    worker = worker_for(lambda _: Empty(["a_0"], [], agents=["a_0"]))
    with pytest.raises(EnvError, match="nobody has been alive for 1000 steps"):
        worker.collect(1100)


def test_an_agent_with_no_legal_action_is_an_error_with_its_name() -> None:
    class Stuck(Scripted):
        space = spaces.Dict({"observation": OBS, "action_mask": spaces.MultiBinary(3)})

        def observation_space(self, agent: str) -> Any:
            return self.space

        def _obs(self, agents: Any) -> dict[str, Any]:
            mask = np.array([0, 0, 0] if self.t else [1, 0, 0], np.int8)
            return {a: {"observation": o, "action_mask": mask} for a, o in super()._obs(agents).items()}

    worker = worker_for(lambda _: Stuck(["a_0"], [Step(["a_0"]), Step(["a_0"])], agents=["a_0"]))
    with pytest.raises(EnvError, match="agent 'a_0' is asked to act, but its action_mask allows nothing"):
        worker.collect(2)


def test_the_horizon_does_not_cut_agents_that_had_ended_before() -> None:
    steps = [
        Step(["a_0", "a_1"], {"a_1": 1}),
        Step(["a_1"], {"a_1": 1}, terminated=["a_0"]),
        Step(["a_1"], {"a_1": 1}),
        Step([], {"a_1": 40}, terminated=["a_1"]),
    ]
    make = lambda _: Scripted(["a_0", "a_1"], steps, agents=["a_0", "a_1"])  # noqa: E731
    rows = team_rows(worker_for(make, horizon=4).collect(4).batch, [0, 1], 1.0)
    assert sorted(zip(rows["t"].tolist(), rows["rewards"].tolist(), rows["terminateds"].tolist(), strict=True)) == [
        (0, 1.0, False),
        (1, 1.0, False),
        (2, 1.0, False),
        (3, 40.0, True),
    ]


def rule_outside(obs: Any) -> int:
    return 7


def rule_with_mask(obs: Any, rng: np.random.Generator, legal: Any) -> int:
    return int(np.flatnonzero(legal)[-1])


def failing_rule(obs: Any) -> int:
    return 1 // 0


@pytest.mark.parametrize(
    ("scripted", "text"),
    [
        (rule_outside, "returned 7, which is not in Discrete"),
        (failing_rule, "policy 'p' failed to act.*ZeroDivisionError"),
    ],
)
def test_what_a_rule_does_wrong_is_said_with_its_name(scripted: Any, text: str) -> None:
    with Trainer("ppo", env="two_step_game", config={**PPO, "policies": {"p": {"scripted": scripted}}}) as trainer:
        with pytest.raises(UserError, match=text):
            trainer.train()


class Choosy(Scripted):
    """Only the last action is legal."""

    space = spaces.Dict({"observation": OBS, "action_mask": spaces.MultiBinary(3)})

    def observation_space(self, agent: str) -> Any:
        return self.space

    def _obs(self, agents: Any) -> dict[str, Any]:
        return {
            a: {"observation": o, "action_mask": np.array([0, 0, 1], np.int8)} for a, o in super()._obs(agents).items()
        }


def test_scripted_policies_respect_masks_or_are_told() -> None:
    make = lambda _: Choosy(["a_0"], [Step([], {"a_0": 1}, ["__all__"])], agents=["a_0"])  # noqa: E731
    keys = {**PPO, "env": make, "timesteps_per_iteration": 8}
    with Trainer("ppo", config={**keys, "policies": {"p": {"scripted": rule_with_mask}}}) as trainer:
        assert trainer.train()["episode_reward_mean"] == 1.0
    with Trainer("ppo", config={**keys, "policies": {"p": {"scripted": {"name": "fixed", "action": 1}}}}) as trainer:
        with pytest.raises(ConfigError, match=r"plays 1, which the action mask forbids there \(legal: \[2\]\)"):
            trainer.train()


def test_a_native_env_that_crashes_is_named() -> None:
    class Crash(TwoStepGames):
        def _play(self, actions: Any) -> Any:
            raise RuntimeError("out of dice")

    with (
        Trainer("ppo", env=Crash, config=PPO) as trainer,
        pytest.raises(EnvError, match="step raised RuntimeError: out of dice"),
    ):
        trainer.train()
