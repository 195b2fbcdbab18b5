"""Wrappers by name, in YAML."""

import numpy as np
import pytest

import marl
from marl.envs.base import MultiAgentEnv
from marl.errors import ConfigError, UnknownNameError


class Doubled(MultiAgentEnv):
    """Pays twice as much."""

    def __init__(self, env, factor=2.0):
        self.env, self.factor = env, factor
        self.possible_agents = env.possible_agents

    def observation_space(self, agent):
        return self.env.observation_space(agent)

    def action_space(self, agent):
        return self.env.action_space(agent)

    def reset(self, *, seed=None, options=None):
        return self.env.reset(seed=seed, options=options)

    def step(self, actions):
        obs, rewards, *rest = self.env.step(actions)
        return obs, {agent: self.factor * reward for agent, reward in rewards.items()}, *rest


def spread(**keys):
    return {
        "env": "pettingzoo:mpe2/simple_spread_v3", "env_config": {"N": 2, "max_cycles": 5}, "algo": "ppo", "train_batch_size": 20,
        "sgd_minibatch_size": 20, "fcnet_hiddens": [8], "evaluation": {"interval": 0}, **keys,
    }  # fmt: skip


def test_supersuit_wrappers_work_by_name_and_in_order():
    trainer = marl.Trainer(config=spread(wrappers=[{"pad_observations_v0": {}}, {"frame_stack_v1": {"stack_size": 2}}]))
    plain = marl.make_env("pettingzoo:mpe2/simple_spread_v3", {"N": 2}).observation_space("agent_0").shape[0]
    assert trainer.setup.task.kinds[0].obs_width == 2 * plain
    trainer.train()
    trainer.stop()


def test_padding_makes_different_spaces_equal_so_that_one_policy_can_play_all():
    config = spread(
        env="pettingzoo:mpe2/simple_tag_v3",
        env_config={"max_cycles": 5},
        wrappers=["pad_observations_v0", "pad_action_space_v0"],
    )
    trainer = marl.Trainer(config=config)
    assert [kind.size for kind in trainer.setup.task.kinds] == [4]
    trainer.train()
    trainer.stop()


def test_supersuit_wraps_turn_based_and_gymnasium_envs():
    board = marl.make_env("pettingzoo:classic/rps_v2", {}, [{"frame_stack_v2": {"stack_size": 3}}])
    assert board.reset(seed=0)[0]
    stacked = marl.make_env("CartPole-v1", {}, [{"frame_stack_v1": {"stack_size": 3}}])
    (obs,) = stacked.reset(seed=0)[0].values()
    assert np.shape(obs) == (12,)


def test_supersuit_wraps_envs_of_ours():
    env = marl.make_env("fast:simple_spread", {}, [{"frame_stack_v1": {"stack_size": 2}}])
    one = marl.make_env("fast:simple_spread").observation_space("agent_0").shape[0]
    obs, _ = env.reset(seed=0)
    assert all(o.shape == (2 * one,) for o in obs.values())


def test_a_wrapper_of_the_user_is_found_by_path_and_by_registered_name():
    marl.register_wrapper("doubled", Doubled)
    base = marl.make_env("two_step_game")
    for wrapper, factor in ((f"{__name__}:Doubled", 2.0), ("doubled", 3.0)):
        env = marl.make_env("two_step_game", {}, [{wrapper: {"factor": factor}}])
        rewards = []
        for batched_env in (base, env):
            batched_env.reset(seed=0)
            batched_env.step({"agent_0": 0, "agent_1": 0})
            rewards.append(sum(batched_env.step({"agent_0": 0, "agent_1": 0})[1].values()))
        assert rewards == [7.0, 7.0 * factor]


def test_wrappers_are_kept_in_checkpoints(tmp_path):
    marl.register_wrapper("doubled", Doubled)
    config = {
        "env": "two_step_game", "algo": "ppo", "train_batch_size": 32, "sgd_minibatch_size": 32, "fcnet_hiddens": [8],
        "wrappers": [{"doubled": {"factor": 10.0}}], "evaluation": {"interval": 0},
    }  # fmt: skip
    trainer = marl.Trainer(config=config)
    trainer.train()
    path = trainer.save(str(tmp_path / "checkpoint"))
    trainer.stop()
    from marl.play.exported_run import open_playable

    runner = open_playable(path, frozenset()).runner()
    runner.begin(np.array([0]), np.array([1]))
    assert isinstance(runner.env.sub_env(0), Doubled)


@pytest.mark.ray
def test_a_registered_wrapper_travels_to_ray_workers(ray_session):
    marl.register_wrapper("tenfold", lambda env: Doubled(env, 10.0))
    config = {
        "env": "two_step_game", "algo": "ppo", "train_batch_size": 32, "sgd_minibatch_size": 32, "fcnet_hiddens": [8],
        "wrappers": ["tenfold"], "evaluation": {"interval": 0}, "num_workers": 1, "pool": "ray",
    }  # fmt: skip
    trainer = marl.Trainer(config=config)
    assert trainer.train()["episode_reward_max"] >= 10.0
    trainer.stop()


@pytest.mark.parametrize(
    ("wrappers", "error", "message"),
    [
        (["frame_stak_v1"], UnknownNameError, "unknown wrapper 'frame_stak_v1'. Did you mean 'frame_stack_v1'"),
        (
            [{"frame_stack_v1": {"stack_sise": 2}}],
            ConfigError,
            "wrapper 'frame_stack_v1' with .*stack_sise.* does not fit",
        ),
        ([{"a": {}, "b": {}}], ConfigError, "one name with its keys"),
        (["no_such_package:f"], ConfigError, "no_such_package"),
        ([{"with_agent_groups": {"group": {}}}], ConfigError, "with_agent_groups.*unexpected keyword argument 'group'"),
    ],
)
def test_bad_wrappers_are_refused_before_any_step(wrappers, error, message):
    with pytest.raises(error, match=message):
        marl.Trainer(config=spread(wrappers=wrappers))
