"""Deterministic actor-critics: losses by hand, joint views, who learns what from whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from marl.algos.custom import Loss
from marl.algos.joint import Follower, QView, Sight, joint_rows
from marl.algos.maddpg.learner import MaddpgLearner
from marl.algos.maddpg.losses import actor_loss, critic_loss, smoothed, td_target
from marl.algos.maddpg.pupil import Pupil
from marl.data.task import Kind, Task, number_seats
from marl.envs.base import MultiAgentEnv, StepResult
from marl.errors import ConfigError, UnknownPolicyError
from marl.training.trainer import Trainer
from tests.training.test_exact_resume import assert_resume_is_exact
from tests.training.trees import differences
from tests.worlds import Scripted, Step, worker_for

SMALL = {
    "learning_starts": 20,
    "train_batch_size": 16,
    "buffer_size": 300,
    "timesteps_per_iteration": 40,
    "rollout_fragment_length": 5,
    "num_envs_per_worker": 2,
    "updates_per_step": 0.5,
    "fcnet_hiddens": [8],
    "evaluation": {"interval": 0},
    "seed": 3,
}
TURNS = [
    Step(["a_1"], {"a_0": 1}),
    Step([], {"a_0": 2}),
    Step(["a_0", "a_1"], {"a_0": 4}),
    Step(["a_1"], {"a_0": 8}, terminated=["a_0"]),
    Step([], {"a_1": 16}, ["__all__"]),
]


class Zoo(MultiAgentEnv):
    """Opponents with different spaces: the wolf is paid what the sheep loses. The mixed one comes every other step."""

    possible_agents: tuple[str, ...] = ("wolf", "sheep", "mixed")
    observations: ClassVar = {"wolf": spaces.Box(-1, 1, (2,), np.float32), "sheep": spaces.Discrete(4)}
    actions: ClassVar = {
        "wolf": spaces.Box(-3, 3, (2,), np.float32),
        "sheep": spaces.Discrete(3),
        "mixed": spaces.Tuple([spaces.Box(0, 1, (1,), np.float32), spaces.MultiDiscrete([2, 3])]),
    }

    def observation_space(self, agent: str) -> Any:
        return self.observations.get(agent, spaces.Box(-9, 9, (1,), np.float32))

    def action_space(self, agent: str) -> Any:
        return self.actions[agent]

    def _obs(self) -> dict[str, Any]:
        seen: dict[str, Any] = {"wolf": np.array([self.t / 9, 0.5], np.float32), "sheep": self.t % 4}
        return seen | ({"mixed": np.array([self.t], np.float32)} if self.t % 2 == 0 else {})

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        return self._obs(), {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        for agent, action in actions.items():
            assert self.action_space(agent).contains(action)
        self.t += 1
        gain = float(actions["wolf"].sum())
        rewards = {"wolf": gain, "sheep": -gain, "mixed": float(self.t)}
        return StepResult(self._obs(), rewards, {}, {"__all__": self.t == 8}, {})


def t(*values: Any) -> torch.Tensor:
    return torch.tensor(values)


def learner_of(trainer: Trainer) -> MaddpgLearner:
    learner = trainer.learners[0]
    assert isinstance(learner, MaddpgLearner)
    return learner


def filled(algo: str, env: Any, **keys: Any) -> Trainer:
    """A trainer whose replay holds one iteration's decisions."""
    trainer = Trainer(algo, config={**SMALL, "env": env, **keys})
    trainer.train()
    return trainer


# -- losses ----------------------------------------------------------------------------------------------------------


def test_a_target_takes_the_smaller_twin_discounted_by_the_steps_that_passed() -> None:
    next_q = t([10.0, 6.0], [1.0, 2.0], [5.0, 5.0])
    target = td_target(t(1.0, 1.0, 1.0), next_q, t(3, 1, 1), t(False, False, True), 0.5)
    assert target.tolist() == [1 + 0.125 * 6, 1 + 0.5 * 1, 1.0]


def test_target_noise_is_cut_and_bounded_coordinates_stay_in_their_box() -> None:
    actions, noise = t([0.0, 0.9, 0.9]), t([2.0, 0.3, 0.3])
    moved = smoothed(actions, noise, 0.5, t(True, True, False))
    assert moved.tolist()[0] == pytest.approx([0.5, 1.0, 1.2])
    assert smoothed(-actions, -noise, 0.5, t(True, True, True)).tolist()[0] == pytest.approx([-0.5, -1.0, -1.0])


def test_the_critic_loss_adds_up_over_critics_and_leaves_the_target_alone() -> None:
    q, target = t([1.0, 2.0], [0.0, 3.0]).requires_grad_(), t(3.0, 1.0).requires_grad_()
    loss = critic_loss(q, target, t(1.0, 0.5))
    assert loss.item() == pytest.approx((4 + 0.5 * 1) / 2 + (1 + 0.5 * 4) / 2)
    loss.backward()  # type: ignore[no-untyped-call]
    assert target.grad is None


def test_the_actor_loss_climbs_q_and_holds_outputs_small() -> None:
    assert actor_loss(t(2.0, 4.0), t([1.0, 3.0]), 0.1).item() == pytest.approx(0.1 * 5 - 3)


def test_a_follower_moves_by_tau_and_copies_buffers() -> None:
    copy, module = nn.BatchNorm1d(1), nn.BatchNorm1d(1)
    with torch.no_grad():
        module.weight.fill_(3.0)
        module.running_mean.fill_(7.0)  # type: ignore[union-attr]
    follower = Follower(copy, module)
    follower.move(0.1)
    assert copy.weight.item() == pytest.approx(1.2)
    follower.move(0.1)
    assert copy.weight.item() == pytest.approx(1.2 + 0.1 * 1.8)
    assert copy.running_mean.item() == 7.0  # type: ignore[union-attr]


# -- views -----------------------------------------------------------------------------------------------------------


def test_joint_rows_of_a_world_with_turns_show_who_decides_before_and_after() -> None:
    batch = worker_for(lambda _: Scripted(["a_0"], TURNS, agents=["a_0", "a_1"])).collect(5).batch
    view = QView(Sight(batch.task, "all", batch.task.kinds[0], range(2)))
    rows = joint_rows(batch, "p", view.sight, gamma=0.5)
    assert list(zip(rows["t"], rows["seat"], rows["rewards"], rows["elapsed"], rows["terminateds"], strict=True)) == [
        (0, 0, 1 + 0.5 * 2 + 0.25 * 4, 3, False),
        (1, 1, 0.0, 2, False),
        (3, 0, 8.0, 1, True),
        (3, 1, 0.0, 1, False),
        (4, 1, 16.0, 1, True),
    ]
    assert rows["present"].tolist() == [[1, 0], [0, 1], [1, 1], [1, 1], [0, 1]]
    assert rows["new_present"].tolist() == [[1, 1], [1, 1], [0, 1], [0, 1], [0, 0]]
    one_hot = np.eye(3)[rows["actions.0"]]
    features = view(rows, "", view.played(rows))
    assert features[1].tolist() == [0] * 5 + [1, 1, *one_hot[1, 1], 0, 1]  # a_0 is absent, the own seat is the second
    assert features[2].tolist() == [0, 3, *one_hot[2, 0], 1, 3, *one_hot[2, 1], 1, 0]


def test_groups_of_different_width_leave_slots_empty() -> None:
    batch = worker_for(
        lambda _: Scripted(["a_0", "a_1", "a_2"], [Step([], {}, ["__all__"])], agents=["a_0", "a_1", "a_2"])
    )
    grid = batch.collect(1).batch
    grid.task = Task(grid.task.kinds, 0, {"pair": (0, 2), "one": (1,)})
    sight = Sight(grid.task, "group", grid.task.kinds[0], range(3))
    assert sight.columns[0].tolist() == [[0, 2], [1, -1], [0, 2]]
    assert sight.own.tolist() == [0, 0, 1]
    rows = joint_rows(grid, "p", sight, 1.0)
    assert rows["present"].tolist() == [[True, True], [True, False], [True, True]]
    assert rows["obs.0"][:, :, 0].tolist() == [[0, 2], [1, 0], [0, 2]]


def test_an_agent_that_the_policy_was_not_expected_to_play_is_named() -> None:
    names = ["a_0", "a_1", "a_2"]
    grid = worker_for(lambda _: Scripted(names, [Step([], {}, ["__all__"])], agents=names)).collect(1).batch
    sight = Sight(grid.task, "all", grid.task.kinds[0], {0, 2})
    with pytest.raises(UnknownPolicyError, match=r"agent 'a_1' to policy 'p'.*only played a_0, a_2.*by patterns"):
        joint_rows(grid, "p", sight, 1.0)


def test_only_the_own_action_is_replaced() -> None:
    kinds = number_seats([Kind("a", ("a_0", "a_1"), spaces.Discrete(2), spaces.Discrete(2))])
    view = QView(Sight(Task(kinds), "all", kinds[0], range(2)))
    rows = {"seat": np.array([0, 1]), "actions.0": np.array([[0, 0], [0, 0]])}
    replaced = view.with_own(rows, view.played(rows), t([0.2, 0.8], [0.3, 0.7]))[0]
    assert torch.allclose(replaced, t([[0.2, 0.8], [1.0, 0.0]], [[1.0, 0.0], [0.3, 0.7]]))


@pytest.mark.parametrize(("sees", "others"), [("own", False), ("all", True)])
def test_a_critic_that_sees_all_depends_on_what_opponents_do(sees: str, others: bool) -> None:
    with filled("maddpg", Zoo, policy_mapping_fn="per_agent", critic_sees=sees) as trainer:
        pupil = learner_of(trainer).pupils["wolf"]
        rows, view = pupil.sample(np.random.default_rng(0)), pupil.view
        actions = {k: part.requires_grad_() for k, part in view.played(rows).items()}
        pupil.critics(view(rows, "", actions)).sum().backward()
        assert len(trainer.learners) == (1 if others else 3)
        k = [kind.name for kind in trainer.setup.task.kinds].index("sheep")
        assert (k in actions) is others
        if others:
            grad = actions[k].grad
            assert grad is not None
            assert grad.abs().max() > 0


def slow_target(learner: MaddpgLearner, pupil: Pupil, rows: Any, task: Task, names: list[str]) -> list[float]:
    """The target, row by row and agent by agent."""
    found = []
    for i in range(len(rows)):
        parts, slot = [], 0
        for k, table in pupil.view.sight.columns.items():
            kind = task.kinds[k]
            width = kind.columns.options + len(kind.columns.numbers)
            for n in range(table.shape[1]):
                obs = torch.from_numpy(rows[f"new_obs.{k}"][i, n][None])
                features = pupil.view.features[str(k)](obs, torch.zeros(1, dtype=torch.long))[0]
                if rows["new_present"][i, slot]:
                    actor = learner.pupils[names[rows["new_policy"][i, slot]]].target_actor
                    encoded = actor.greedy(actor(obs, torch.tensor([0])), torch.ones(1, 0, dtype=torch.bool))[0]
                    options = kind.columns.options
                    noise = torch.from_numpy(rows[f"new_noise.{k}"][i, n]).clamp(-0.5, 0.5)
                    encoded = torch.cat([encoded[:options], (encoded[options:] + noise).clamp(-1, 1)])
                    parts += [features, encoded]
                else:
                    parts.append(torch.zeros(len(features) + width))
                slot += 1
        seat = torch.zeros(pupil.actor.kind.size)
        seat[rows["seat"][i]] = 1.0
        q = pupil.target_critics(torch.cat([*parts, seat])[None]).min().item()
        value = 0.0 if rows["terminateds"][i] else 0.9 ** int(rows["elapsed"][i]) * q
        found.append(float(rows["rewards"][i]) + value)
    return found


def test_targets_ask_every_present_agents_target_actor() -> None:
    with filled("td3", Zoo, policy_mapping_fn="per_agent", critic_sees="all", gamma=0.9, n_step=2) as trainer:
        learner = learner_of(trainer)
        for pupil in learner.pupils.values():
            rows = pupil.sample(np.random.default_rng(1))
            with torch.no_grad():
                slow = slow_target(learner, pupil, rows, trainer.setup.task, list(trainer.policies))
            target = learner._target(pupil, rows, learner._next_actions(pupil, rows))
            assert target.tolist() == pytest.approx(slow, abs=1e-4)
            assert rows["new_present"].all() == (pupil.name == "mixed")  # it is there every other step only


def test_opponents_that_learn_elsewhere_are_asked_as_they_are() -> None:
    keys = {"policies": {"wolf": {}, "rest": {"scripted": "random"}, "mixed": {"scripted": "random"}}}
    mapping = {"wolf": "wolf", "sheep": "rest", "mixed": "mixed"}
    with filled("maddpg", Zoo, **keys, policy_mapping_fn=mapping) as trainer:
        learner = learner_of(trainer)
        pupil = learner.pupils["wolf"]
        decided = pupil.view.decided(pupil.sample(np.random.default_rng(0)), "new_", learner.deciders)
        k = [kind.name for kind in trainer.setup.task.kinds].index("sheep")
        chosen = decided[k].sum(dim=0)[0]
        assert (chosen > 0).all()  # a random sheep plays everything


def test_a_permuted_batch_has_the_same_losses() -> None:
    with filled("td3", Zoo, policy_mapping_fn="per_agent", critic_sees="all") as trainer:
        learner = learner_of(trainer)
        for pupil in learner.pupils.values():
            rows = pupil.sample(np.random.default_rng(2))
            permuted = rows.rows(np.random.default_rng(3).permutation(len(rows)))
            losses = []
            for part in (rows, permuted):
                q = pupil.critics(pupil.view(part, "", pupil.view.played(part)))
                target = learner._target(pupil, part, learner._next_actions(pupil, part))
                critic = critic_loss(q, target, pupil.view.tensor(part["weights"]))
                losses.append([critic.item(), learner._actor_loss(pupil, part).item()])
            assert losses[0] == pytest.approx(losses[1], rel=1e-5, abs=1e-5)


# -- training --------------------------------------------------------------------------------------------------------


def test_the_actor_and_the_targets_move_every_second_update_of_td3() -> None:
    with filled("td3", "Pendulum-v1", policy_delay=2, num_envs_per_worker=1) as trainer:
        learner = learner_of(trainer)
        assert learner.counters["num_updates"] // 2 == learner.counters["num_actor_updates"] > 3
        pupil = learner.pupils["default_policy"]
        pupil.updates = 0
        before, critics = pupil.target_critics.state_dict(), pupil.critics.state_dict()
        before, critics = [{n: v.clone() for n, v in state.items()} for state in (before, critics)]
        weights = pupil.actor.get_weights()
        learner._update(pupil, [], [])
        assert all(torch.equal(v, before[n]) for n, v in pupil.target_critics.state_dict().items())
        assert differences(pupil.actor.get_weights(), weights) == []
        assert any(not torch.equal(v, critics[n]) for n, v in pupil.critics.state_dict().items())
        learner._update(pupil, [], [])
        tau = pupil.config.tau
        for name, value in pupil.target_critics.state_dict().items():
            assert torch.allclose(value, before[name] + tau * (pupil.critics.state_dict()[name] - before[name]))
        assert differences(pupil.actor.get_weights(), weights)


def test_the_actors_step_leaves_the_critics_gradient_alone() -> None:
    with filled("ddpg", "Pendulum-v1") as trainer:
        pupil = learner_of(trainer).pupils["default_policy"]
        pupil.critic_optimiser.zero()
        learner_of(trainer)._improve_actor(pupil, pupil.sample(np.random.default_rng(0)), 1e-3)
        assert pupil.critic_optimiser.grad.abs().max() == 0
        assert pupil.actor_optimiser.grad.abs().max() > 0


def test_step_sizes_of_actor_and_critic_may_differ() -> None:
    with filled("ddpg", "Pendulum-v1", lr=0.25, actor_lr=0.5) as trainer:
        assert learner_of(trainer).pupils["default_policy"].lrs(0) == (0.5, 0.25)
    with filled("ddpg", "Pendulum-v1", lr_schedule=[[0, 1.0], [100, 0.0]], critic_lr=0.5) as trainer:
        assert learner_of(trainer).pupils["default_policy"].lrs(50) == (0.5, 0.5)
        assert learner_of(trainer).pupils["default_policy"].lrs(100) == (0.0, 0.5)


def test_a_frozen_policy_changes_by_nothing_while_the_others_learn() -> None:
    keys = {"policy_mapping_fn": "per_agent", "policies_to_train": ["wolf", "mixed"]}
    with Trainer("maddpg", config={**SMALL, "env": Zoo, **keys}) as trainer:
        learner, before = learner_of(trainer), trainer.get_weights()
        state = learner.pupils["sheep"].state_dict()
        result = trainer.train()
        after = trainer.get_weights()
        assert differences(before["sheep"], after["sheep"]) == []
        assert differences(state, learner.pupils["sheep"].state_dict()) == []
        assert len(learner.pupils["sheep"].replay) == 0
        assert differences(before["wolf"], after["wolf"])
        assert differences(before["mixed"], after["mixed"])
        assert set(result["info"]["learner"]) == {"wolf", "mixed"}
        trainer.set_policies_to_train(["sheep"])
        trainer.train()
        assert differences(after["sheep"], trainer.get_weights()["sheep"])
        assert differences(after["wolf"], trainer.get_weights()["wolf"]) == []


def test_each_opponent_learns_from_its_own_reward_and_a_team_from_the_sum() -> None:
    with filled("maddpg", Zoo, policy_mapping_fn="per_agent") as trainer:
        replays = {name: pupil.replay for name, pupil in learner_of(trainer).pupils.items()}
        wolf, sheep = (replays[n].columns["rewards"][: len(replays[n])] for n in ("wolf", "sheep"))
        assert wolf.tolist() == pytest.approx((-sheep).tolist())
        assert abs(wolf).max() > 0
    with filled("maddpg", Zoo, policy_mapping_fn="per_agent", share_reward=True, gamma=1.0) as trainer:
        replay = learner_of(trainer).pupils["wolf"].replay  # wolf and sheep cancel out; the mixed one is paid the time
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
        assert learner_of(trainer).pupils["default_policy"].custom_loss is not None
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


def test_worlds_with_turns_masks_and_agents_that_come_and_go_are_learned_from() -> None:
    turns = {"env": lambda _: Scripted(["a_0"], TURNS, agents=["a_0", "a_1"]), "timesteps_per_iteration": 80}
    tictactoe = {"env": "pettingzoo:classic/tictactoe_v3"}
    cars = {"env": "traffic", "env_config": {"max_cars": 4}}
    for world in (turns, tictactoe, cars):
        with Trainer("maddpg", config={**SMALL, **world}) as trainer:
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
