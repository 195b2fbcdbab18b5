"""Cases that once went wrong, or could: each says what must hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.algos.presets import ALGOS
from marl.algos.views import team_rows
from marl.data.returns import gae
from marl.envs.games.two_step import TwoStepGames
from marl.envs.vector import DictVector
from marl.errors import CheckpointError, ConfigError, EnvError, SpaceMismatchError, UserError
from marl.scenario.describe import describe
from marl.scenario.load import compose, load_scenario
from marl.training.trainer import Trainer
from tests.training.trees import differences
from tests.worlds import ACT, OBS, Scripted, Step, worker_for

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


def blind_world(_: Any) -> Scripted:
    steps = [Step(["a_0"], {"a_0": 1}), Step(["a_0"], {"a_0": 1}), Step([], {"a_0": 100}, truncated=["a_0"], last=[])]
    return Scripted(["a_0"], steps, agents=["a_0"])


def test_a_lost_decision_does_not_join_two_episodes_into_one_advantage() -> None:
    batch = worker_for(blind_world).collect(6).batch
    zeros = np.zeros_like(batch.rewards)
    advantages = gae(batch, zeros, zeros, batch.rewards, 1.0, 1.0)
    assert advantages[:, 0, 0][batch.active[:, 0, 0]].tolist() == [2.0, 1.0, 2.0, 1.0]


def test_a_team_cut_off_without_a_last_observation_is_left_out() -> None:
    rows = team_rows(worker_for(blind_world).collect(6).batch, [0], 1.0)
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


def test_null_values_survive_the_complete_form() -> None:
    scenario = compose({"env": "e", "algo": {"name": "qmix", "grad_clip": None}})
    again = compose(describe(scenario))
    assert again.preset.configure(**again.algo_keys).grad_clip is None
    assert describe(again) == describe(scenario)


def test_what_makes_a_preset_cannot_be_changed_under_its_name() -> None:
    with pytest.raises(ConfigError, match=r"vdn has mixer 'sum', not 'monotonic'. Use algo qmix"):
        ALGOS["vdn"].configure(mixer="monotonic")


def test_scripted_box_actions_reach_the_world_as_they_were_said() -> None:
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


def test_restoring_into_a_used_trainer_is_exact(tmp_path: Path) -> None:
    with Trainer("ppo", env="CartPole-v1", config=PPO) as trainer:
        trainer.save(tmp_path / "start")
        trainer.train()
        expected = trainer.get_weights()
        trainer.train()
        trainer.restore(tmp_path / "start")
        trainer.train()
        assert differences(trainer.get_weights(), expected) == []


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"seed": 9}, "seed"), ({"buffer_size": 70}, "algo.buffer_size"), ({"prioritized_replay": True}, "algo.prioritized_replay"),
     ({"mixing_embed_dim": 8}, "algo.mixing_embed_dim"), ({"num_envs_per_worker": 2}, "num_envs_per_worker"), ({"fcnet_hiddens": [9]}, "model.fcnet_hiddens")],
)  # fmt: skip
def test_a_run_does_not_go_on_with_keys_that_its_state_depends_on(
    changes: dict[str, Any], name: str, tmp_path: Path
) -> None:
    with Trainer("qmix", env="two_step_game", config=QMIX) as trainer:
        trainer.train()
        trainer.save(tmp_path / "here")
    with (
        Trainer("qmix", env="two_step_game", config={**QMIX, **changes}) as other,
        pytest.raises(CheckpointError, match=name),
    ):
        other.restore(tmp_path / "here")
    with Trainer("qmix", env="two_step_game", config={**QMIX, "lr": 0.1, "stop": {"timesteps_total": 5}}) as other:
        other.restore(tmp_path / "here")


def only_the_first(policy: str, batch: Any) -> bool:
    return policy == "agent_0"


def test_a_function_that_chooses_who_learns_is_found_again_by_its_name(tmp_path: Path) -> None:
    keys = {**PPO, "policy_mapping_fn": "per_agent", "policies_to_train": only_the_first}
    with Trainer("ppo", env="two_step_game", config=keys) as trainer:
        trainer.train()
        trainer.save(tmp_path / "here")
    with Trainer.from_checkpoint(tmp_path / "here", allow=["tests"]) as again:
        assert again.train()["policies_to_train"] == ["agent_0"]


def test_a_restored_run_does_not_look_for_what_it_once_loaded(tmp_path: Path) -> None:
    with Trainer("ppo", env="two_step_game", config=PPO) as first:
        first.save(tmp_path / "first")
    with Trainer(
        "ppo", env="two_step_game", config={**PPO, "load": {"default_policy": str(tmp_path / "first")}}
    ) as second:
        second.save(tmp_path / "second")
    (tmp_path / "first").rename(tmp_path / "gone")
    Trainer.from_checkpoint(tmp_path / "second").stop()


def test_a_damaged_older_checkpoint_does_not_end_the_run(tmp_path: Path) -> None:
    with Trainer("ppo", env="two_step_game", config={**PPO, "checkpoint_freq": 1}, directory=tmp_path) as trainer:
        trainer.train()
        (tmp_path / "checkpoints" / "checkpoint_000001" / "manifest.json").write_text("junk")
        trainer.train()
    assert (tmp_path / "checkpoints" / "checkpoint_000002" / "manifest.json").exists()


def test_an_evaluation_mapping_to_another_kind_is_refused_before_the_run() -> None:
    keys = {
        **PPO,
        "env": "traffic",
        "policies": ["car", "traffic_light"],
        "evaluation": {"policy_mapping_fn": {"car_*": "traffic_light", "*": "car"}},
    }
    with pytest.raises(
        SpaceMismatchError, match=r"evaluation.policy_mapping_fn sends 'car_\*\[0\]' to policy 'traffic_light'"
    ):
        Trainer("ppo", config=keys)


@pytest.mark.parametrize(
    ("policies", "text"),
    [({"p": {"algo": 5}}, r"policies.p.algo = 5"), ({"p": {"exploration_config": 5}}, "policies.p.exploration_config = 5"),
     ({"p": {"scripted": {1: 2}}}, "policies.p.scripted"), ({"p": {"scripted": {"nam": "random"}}}, "unknown key 'nam'")],
)  # fmt: skip
def test_odd_values_in_a_policys_section_are_named(policies: dict[str, Any], text: str) -> None:
    with pytest.raises(UserError, match=text):
        Trainer("ppo", env="two_step_game", config={"policies": policies})


@pytest.mark.parametrize("points", [[[0, 1e-3], [10, -1.0]], [[100, 1e-3], [10, 1e-4]], []])
def test_schedules_that_make_no_sense_are_refused(points: list[Any]) -> None:
    with pytest.raises(ConfigError, match="lr_schedule"):
        compose({"env": "e", "algo": {"name": "ppo", "lr_schedule": points}})


def test_a_scenario_and_separate_keys_cannot_be_given_together() -> None:
    with pytest.raises(ConfigError, match="not both"):
        Trainer("qmix", scenario=compose({"env": "two_step_game"}))


def test_a_mask_on_several_choices_is_refused_with_the_remedy() -> None:
    class Odd(Scripted):
        space = spaces.Dict({"observation": OBS, "action_mask": spaces.MultiBinary(2)})

        def observation_space(self, agent: str) -> Any:
            return self.space

        def action_space(self, agent: str) -> Any:
            return spaces.MultiDiscrete([2, 2])

    with pytest.raises(SpaceMismatchError, match="Masks work with Discrete actions"):
        DictVector([Odd(["a_0"], [], agents=["a_0"])], "odd")


def test_a_world_where_nobody_is_left_and_nothing_ends_is_found_out() -> None:
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


def test_anchors_and_merges_in_a_scenario_work(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        "env: two_step_game\nmultiagent:\n  policies:\n    a: &base {gamma: 0.5}\n    b: {<<: *base, lr: 0.1}\n"
    )
    assert load_scenario(path).multiagent.policies["b"] == {"gamma": 0.5, "lr": 0.1}


def test_a_checkpoint_imports_and_calls_nothing_that_was_not_allowed(tmp_path: Path) -> None:
    from marl.registry import import_module, load_object, only_modules

    with only_modules(frozenset()):
        with pytest.raises(ConfigError, match="--allow json"):
            import_module("json", "imports")
        with pytest.raises(ConfigError, match="not allowed"):
            load_object("marl.training.atomic:os.system", "policy_mapping_fn")
        assert load_object("marl.training.atomic:write_atomically", "x")
    with only_modules(frozenset({"json"})):
        import_module("json", "imports")


def test_keys_of_an_algorithm_do_not_change_which_one_it_is() -> None:
    from marl.scenario.load import apply

    raw: dict[str, Any] = {"algo": "dqn"}
    apply(raw, "algo", {"lr": 0.1})
    assert raw["algo"] == {"name": "dqn", "lr": 0.1}
    apply(raw, "algo", "vdn")
    assert raw["algo"] == {"name": "vdn", "lr": 0.1}


def test_a_goal_on_the_training_reward_stops_without_evaluations() -> None:
    keys = {**PPO, "env": "two_step_game", "goal": {"episode_reward_mean": 1}, "stop": {"goal": True}}
    with Trainer("ppo", config=keys) as trainer:
        assert trainer.train()["done"]


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


@pytest.mark.parametrize(("algo", "wrong"), [("ppo", "EpsilonGreedy"), ("dqn", "StochasticSampling")])
def test_a_policys_own_exploration_must_fit_its_algorithm(algo: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=f"policies.p.exploration_config.type {wrong} does not fit {algo}"):
        Trainer(algo, env="two_step_game", config={"policies": {"p": {"exploration_config": {"type": wrong}}}})


def test_a_constant_of_a_policy_replaces_an_inherited_schedule() -> None:
    keys = {"env": "two_step_game", "algo": {"name": "ppo", "lr_schedule": [[0, 0.1]]}, "policies": {"p": {"lr": 0.5}}}
    with Trainer(config={**PPO, **keys}) as trainer:
        assert trainer.setup.roles["p"].config.lr_schedule is None
        assert trainer.train()["info"]["learner"]["p"]["learner_stats"]["cur_lr"] == 0.5


def test_numpy_values_in_env_config_survive_save_and_restore(tmp_path: Path) -> None:
    make = lambda config: blind_world(None)  # noqa: E731
    with Trainer("ppo", env=make, config={**PPO, "env_config": {"m": np.eye(2)}}) as trainer:
        trainer.save(tmp_path / "here")
        trainer.restore(tmp_path / "here")


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


def test_a_native_world_that_crashes_is_named() -> None:
    class Crash(TwoStepGames):
        def _play(self, actions: Any) -> Any:
            raise RuntimeError("out of dice")

    with (
        Trainer("ppo", env=Crash, config=PPO) as trainer,
        pytest.raises(EnvError, match="step raised RuntimeError: out of dice"),
    ):
        trainer.train()
