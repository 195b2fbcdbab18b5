"""A group played as one agent."""

from typing import ClassVar

import numpy as np
import pytest
from gymnasium import spaces

import marl
from marl.envs.base import ALL, MultiAgentEnv, StepResult
from marl.envs.registry import make_batched_env
from marl.envs.wrappers import Wrapping
from marl.envs.wrappers.joint import GroupedEnv
from marl.errors import ConfigError, SpaceMismatchError


class Script(MultiAgentEnv):
    """Plays a given list of step results and keeps the actions that it got."""

    possible_agents = ("a", "b", "c")
    shown: ClassVar = {"a": spaces.Box(-9, 9, (2,)), "b": spaces.Discrete(3), "c": spaces.Box(-9, 9, (2,))}
    moves: ClassVar = {"a": spaces.Discrete(2), "b": spaces.Box(-1, 1, (1,)), "c": spaces.Discrete(2)}

    def __init__(self, first, *steps):
        self.first, self.steps = first, list(steps)
        self.got = []

    def observation_space(self, agent):
        return self.shown[agent]

    def action_space(self, agent):
        return self.moves[agent]

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return self.first, {}

    def step(self, actions):
        self.got.append(actions)
        self.at += 1
        return self.steps[self.at - 1]


A, B, C = np.array([1.0, 2.0], np.float32), 2, np.array([3.0, 4.0], np.float32)


def test_the_spaces_of_a_group_are_tuples_and_the_others_stay():
    env = Script({}).with_agent_groups({"team": ["a", "b"]})
    assert env.possible_agents == ("team", "c")
    assert env.observation_space("team") == spaces.Tuple([Script.shown["a"], Script.shown["b"]])
    assert env.action_space("team") == spaces.Tuple([Script.moves["a"], Script.moves["b"]])
    assert env.action_space("team") is env.action_space("team")
    assert env.action_space("c") is Script.moves["c"]


def test_a_group_sees_and_moves_all_members_and_is_paid_their_sum():
    base = Script(
        {"a": A, "b": B, "c": C},
        StepResult({"a": A, "b": 0, "c": C}, {"a": 1.0, "b": 2.5, "c": 7.0}, {}, {}, {"b": {"x": 1}}),
    )
    env = base.with_agent_groups({"team": ["a", "b"]})
    obs, _ = env.reset()
    assert obs["team"][0] is A
    assert obs["team"][1] == B
    result = env.step({"team": (1, np.array([0.5])), "c": 0})
    assert base.got == [{"a": 1, "b": np.array([0.5]), "c": 0}]
    assert result.rewards == {"team": 3.5, "c": 7.0}
    assert result.infos == {"team": {"b": {"x": 1}}}


def test_an_absent_member_is_zeros_and_its_part_of_the_action_is_not_played():
    base = Script({"b": B}, StepResult({"a": A}, {}, {}, {}, {}))
    env = base.with_agent_groups({"team": ["a", "b"]})
    obs, _ = env.reset()
    assert obs["team"][0].tolist() == [0.0, 0.0]
    env.step({"team": (1, np.array([0.5]))})
    assert list(base.got[0]) == ["b"]


def test_a_group_ends_with_its_last_member_and_tells_how():
    base = Script(
        {"a": A, "b": B},
        StepResult({"a": A, "b": B}, {}, {"a": True}, {}, {}),
        StepResult({"b": B}, {}, {}, {"b": True}, {}),
    )
    env = base.with_agent_groups({"team": ["a", "b"]})
    env.reset()
    first = env.step({"team": (0, np.zeros(1))})
    assert (first.terminated["team"], first.truncated["team"]) == (False, False)
    last = env.step({"team": (0, np.zeros(1))})
    assert (last.terminated["team"], last.truncated["team"]) == (False, True)
    assert "team" in last.obs


def test_a_group_truncated_without_last_observations_is_not_shown_one():
    base = Script({"a": A, "b": B}, StepResult({}, {}, {}, {ALL: True}, {}))
    env = base.with_agent_groups({"team": ["a", "b"]})
    env.reset()
    result = env.step({"team": (0, np.zeros(1))})
    assert result.obs == {}
    assert result.truncated["team"]
    assert result.truncated[ALL]


def test_masks_of_members_are_joined_and_obeyed_in_training():
    env = marl.make_env("pettingzoo:classic/tictactoe_v3").with_agent_groups({"both": ["player_1", "player_2"]})
    space = env.observation_space("both")
    assert space["action_mask"] == spaces.MultiBinary(18)
    obs, _ = env.reset(seed=0)
    assert obs["both"]["action_mask"].tolist() == [1] * 18
    result = env.step({"both": (4, 0)})
    assert result.obs["both"]["action_mask"].tolist() == [1] * 9 + [1, 1, 1, 1, 0, 1, 1, 1, 1]
    trainer = marl.Trainer(config=
        {
            "env": "pettingzoo:classic/tictactoe_v3", "algo": "ppo", "train_batch_size": 64, "sgd_minibatch_size": 32,
            "groups": {"both": ["player_*"]}, "joint": ["both"], "fcnet_hiddens": [8], "evaluation": {"interval": 0},
        }
    )  # fmt: skip
    result = trainer.train()  # PettingZoo ends the game with -1 for an illegal move
    assert result["policy_reward_mean"]["default_policy"] == pytest.approx(0.0)
    trainer.stop()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({}, "got no groups"),
        ({"team": []}, "has no members"),
        ({"team": ["a", "x"]}, "names 'x'.*a, b, c"),
        ({"one": ["a"], "two": ["a", "b"]}, "'a' is in the groups 'one' and 'two'"),
        ({"c": ["a", "b"]}, "'c' is the name of an agent as well"),
    ],
)
def test_groups_that_make_no_sense_are_refused(groups, message):
    with pytest.raises(ConfigError, match=message):
        Script({}).with_agent_groups(groups)


def test_given_tuple_spaces_are_compared_with_the_inferred_ones():
    fitting = spaces.Tuple([Script.shown["a"], Script.shown["b"]])
    assert Script({}).with_agent_groups({"team": ["a", "b"]}, fitting).observation_space("team") == fitting
    with pytest.raises(SpaceMismatchError, match="Leave obs_space out"):
        Script({}).with_agent_groups({"team": ["a", "b"]}, spaces.Tuple([Script.shown["a"]]))


def test_a_grouped_env_goes_on_from_its_state():
    wrappers = [Wrapping("with_agent_groups", {"groups": {"team": ["agent_0", "agent_1"]}})]
    old, new = (make_batched_env("two_step_game", 2, {}, wrappers=wrappers) for _ in range(2))
    old.reset(np.arange(2), np.array([3, 4]))
    old.step([np.array([[[1, 0]], [[0, 1]]])])
    new.set_state(old.get_state())
    frames = [env.step([np.array([[[1, 1]], [[0, 0]]])]) for env in (old, new)]
    assert frames[0].rewards.tolist() == frames[1].rewards.tolist() == [[8.0], [7.0]]


def scenario(algo, **keys):
    return {
        "env": "two_step_game", "algo": algo, "num_envs_per_worker": 4, "fcnet_hiddens": [8], "train_batch_size": 32,
        "evaluation": {"interval": 0}, **keys,
    }  # fmt: skip


def test_a_wrapped_env_shows_its_members_to_mixing_algorithms_and_tuples_to_others():
    wrapped = {"wrappers": [{"with_agent_groups": {"groups": {"team": ["agent_0", "agent_1"]}}}]}
    plain = marl.Trainer(config=scenario("ppo", sgd_minibatch_size=32, **wrapped))
    assert plain.setup.task.seat_names == ("team",)
    mixing = marl.Trainer(config=scenario("qmix", **wrapped))
    assert mixing.setup.task.seat_names == ("agent_0", "agent_1")
    assert mixing.setup.task.groups == {"team": (0, 1)}
    assert any("play by themselves, because qmix joins them" in line for line in mixing.setup.header)
    for trainer in (plain, mixing):
        trainer.train()
        trainer.stop()


def test_a_creator_may_return_a_grouped_env():
    marl.register_env(
        "joined", lambda config: marl.make_env("two_step_game").with_agent_groups({"team": ["agent_0", "agent_1"]})
    )
    trainer = marl.Trainer(config=scenario("ppo", sgd_minibatch_size=32) | {"env": "joined"})
    assert isinstance(trainer.workers.local_worker().env.sub_env(0), GroupedEnv)
    trainer.train()
    trainer.stop()


def test_groups_of_different_sizes_and_a_single_agent_play_together():
    groups = {"big": ["adversary_0", "adversary_1"], "small": ["agent_0"]}
    config = {
        "env": "pettingzoo:mpe2/simple_tag_v3", "env_config": {"max_cycles": 5}, "algo": "ppo", "groups": groups,
        "joint": ["big", "small"], "train_batch_size": 20, "sgd_minibatch_size": 20, "fcnet_hiddens": [8],
        "evaluation": {"interval": 0},
    }  # fmt: skip
    trainer = marl.Trainer(config=config)
    assert set(trainer.setup.task.seat_names) == {"big", "small", "adversary_2"}
    result = trainer.train()
    assert set(result["policy_reward_mean"]) == set(trainer.setup.policies)
    trainer.stop()


def test_joint_of_an_unknown_group_is_refused():
    with pytest.raises(
        ConfigError, match=r"multiagent.joint names 'teem', which is no group. Groups: team. Did you mean"
    ):
        marl.Trainer(config=scenario("ppo", groups={"team": ["agent_0", "agent_1"]}, joint=["teem"]))


class OneBased(Script):
    """Members whose spaces do not hold 0."""

    shown: ClassVar = {agent: spaces.Box(1, 2, (2,), np.float32) for agent in "abc"}


def test_an_absent_member_is_shown_something_that_its_space_holds():
    env = OneBased({"b": np.ones(2, np.float32)}).with_agent_groups({"team": ["a", "b"]})
    obs, _ = env.reset()
    assert env.observation_space("team").contains(obs["team"])
    assert obs["team"][0].tolist() == [1.0, 1.0]


class Masked(Script):
    shown: ClassVar = {
        agent: spaces.Dict({"observation": spaces.Discrete(2), "action_mask": spaces.MultiBinary(2)}) for agent in "abc"
    }
    moves: ClassVar = {agent: spaces.Discrete(2) for agent in "abc"}


def test_the_mask_of_a_member_that_just_ended_forbids_nothing():
    gone, there = ({"observation": 1, "action_mask": np.array(mask, np.int8)} for mask in ([0, 0], [0, 1]))
    base = Masked({"a": there, "b": there}, StepResult({"a": gone, "b": there}, {}, {"a": True}, {}, {}))
    env = base.with_agent_groups({"team": ["a", "b"]})
    assert env.reset()[0]["team"]["action_mask"].tolist() == [0, 1, 0, 1]
    assert env.step({"team": (1, 1)}).obs["team"]["action_mask"].tolist() == [1, 1, 0, 1]
