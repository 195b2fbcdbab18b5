"""Envs of other libraries that do what their dialect allows: masks in infos, keys of their own, endings in empty turns."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

import marl
from marl.data.task import Array
from marl.envs.adapters.copies import GymnasiumCopies
from marl.envs.adapters.gymnasium import AGENT, GymnasiumEnv
from marl.envs.adapters.pettingzoo import PettingZooParallelEnv, PettingZooTurnBasedEnv
from marl.envs.vector.vector_env import DictVector
from marl.errors import ConfigError, EnvError
from marl.training.trainer import Trainer

SMALL = {"fcnet_hiddens": [8], "train_batch_size": 64, "sgd_minibatch_size": 64, "num_sgd_iter": 1}
BOX = spaces.Box(0.0, 1.0, (2,), np.float32)


class OnlyOneDoor(gym.Env[Array, Any]):
    """One door of ``acts`` is open at a time, and the info says which; a closed one is an error."""

    observation_space = BOX

    def __init__(self, acts: spaces.Space[Any] | None = None, shape: tuple[int, ...] = (5,)) -> None:
        self.action_space = acts or spaces.Discrete(5)
        self.shape = shape

    def _answer(self) -> tuple[Array, dict[str, Any]]:
        mask = np.full(5, not isinstance(self.action_space, spaces.Discrete), np.int8)
        self.open = int(self.np_random.integers(5))
        mask[self.open] = 1
        return np.zeros(2, np.float32), {"action_mask": mask.reshape(self.shape)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._answer()

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        if isinstance(self.action_space, spaces.Discrete) and self.shape == (5,):
            assert action == self.open, "an illegal move"
        self.steps += 1
        obs, info = self._answer()
        return obs, 1.0, self.steps == 8, False, info


gym.register("OnlyOneDoor-v0", OnlyOneDoor)


@pytest.mark.parametrize(
    "keys", [{"env": "OnlyOneDoor-v0"}, {"env": "copies", "env_config": {"env": "OnlyOneDoor-v0"}}]
)
def test_masks_in_the_infos_of_gymnasium_envs_are_kept_to(keys: dict[str, Any]) -> None:
    with Trainer("ppo", config={**keys, **SMALL, "evaluation": {"interval": 0}}) as trainer:
        assert all(kind.masked and kind.legal_width == 5 for kind in trainer.setup.task.kinds)
        assert trainer.train()["episodes_this_iter"] > 0


def test_taxi_shows_its_mask_beside_its_place() -> None:
    env = marl.make_env("Taxi-v4")
    obs, infos = env.reset(seed=3)
    assert set(obs[AGENT]) == {"observation", "action_mask"}
    assert env.observation_space(AGENT).contains(obs[AGENT])
    np.testing.assert_array_equal(obs[AGENT]["action_mask"], infos[AGENT]["action_mask"])


def test_masks_of_copies_are_each_agents_own() -> None:
    env = GymnasiumCopies({"env": "OnlyOneDoor-v0", "num_agents": 3})
    obs, infos = env.reset(seed=0)
    for agent in env.possible_agents:
        assert env.observation_space(agent).contains(obs[agent])
        np.testing.assert_array_equal(obs[agent]["action_mask"], infos[agent]["action_mask"])
    assert len({int(o["action_mask"].argmax()) for o in obs.values()}) > 1


@pytest.mark.parametrize(
    ("acts", "shape", "size"),
    [
        (spaces.MultiDiscrete([2, 3]), (5,), 5),
        (spaces.MultiDiscrete([5, 3]), (5,), 0),
        (spaces.Discrete(5), (5, 1), 0),
        (spaces.Discrete(4), (5,), 0),
        (spaces.Box(-1.0, 1.0, (5,), np.float32), (5,), 0),
    ],
)
def test_only_a_flat_mask_with_one_entry_per_action_is_one(
    acts: spaces.Space[Any], shape: tuple[int, ...], size: int
) -> None:
    env = GymnasiumEnv(OnlyOneDoor(acts, shape))
    assert env.mask_size == size
    assert isinstance(env.observation_space(AGENT), spaces.Dict) == bool(size)
    vector = DictVector([env], "doors")
    vector.reset(np.array([0]), np.array([0]))
    assert vector.infos[0][AGENT]["action_mask"].shape == shape


def test_the_look_for_masks_leaves_no_seed_behind() -> None:
    places = {int(GymnasiumEnv(OnlyOneDoor()).reset()[0][AGENT]["action_mask"].argmax()) for _ in range(40)}
    assert len(places) > 1


class Unannounced(marl.MultiAgentEnv):
    """Gives masks in infos that its spaces do not speak of."""

    possible_agents = ("a", "b")

    def observation_space(self, agent: Any) -> Any:
        return BOX

    def action_space(self, agent: Any) -> Any:
        return spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return {a: np.zeros(2, np.float32) for a in "ab"}, {"a": {}, "b": {"action_mask": [1, 0, 1]}}

    def step(self, actions: Any) -> Any:
        raise NotImplementedError


def test_a_mask_that_the_spaces_do_not_announce_is_an_error_also_where_all_are_seen_at_once() -> None:
    vector = DictVector([Unannounced()], "unannounced")
    assert vector._plain
    with pytest.raises(
        EnvError, match="the info of agent 'b' holds an action_mask, which its observation space does not"
    ):
        vector.reset(np.array([0]), np.array([0]))


class Market(ParallelEnv[str, Array, int]):
    """Its infos have a key ``stale`` of their own."""

    metadata: ClassVar[dict[str, Any]] = {"name": "market"}
    possible_agents: ClassVar[list[str]] = ["a", "b"]

    def __init__(self, **more: Any) -> None:
        self.info = {"stale": True, **more}

    def observation_space(self, agent: str) -> Any:
        return BOX

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents = list(self.possible_agents)
        return {a: np.zeros(2, np.float32) for a in self.agents}, {a: dict(self.info) for a in self.agents}

    def step(self, actions: Any) -> Any:
        obs, infos = self.reset()
        no = dict.fromkeys(self.agents, False)
        return obs, dict.fromkeys(self.agents, 0.0), no, no, infos


@pytest.mark.parametrize("more", [{}, {"marl_stale": 1}])
def test_agents_of_an_env_whose_infos_say_stale_are_asked(more: dict[str, Any]) -> None:
    env = PettingZooParallelEnv(Market(**more))
    assert set(env.reset(seed=0)[0]) == {"a", "b"}
    assert set(env.step({"a": 0, "b": 1}).obs) == {"a", "b"}


@pytest.mark.parametrize(
    "wrapper",
    [
        {"agent_indicator_v0": {}},
        "pad_observations_v0",
        {"reward_lambda_v0": {"change_reward_fn": abs}},
        "clip_reward_v0",
        "flatten_v0",
        {"dtype_v0": {"dtype": np.float32}},
    ],
)
def test_supersuit_wraps_an_env_that_does_not_ask_everybody(wrapper: Any) -> None:
    env = marl.make_env("traffic", {}, [wrapper])
    obs, _ = env.reset(seed=1)
    asked = []
    for _ in range(30):
        asked.append(sorted(obs))
        result = env.step({agent: env.action_space(agent).sample() for agent in obs})
        ended = {a for flags in (result.terminated, result.truncated) for a, flag in flags.items() if flag}
        obs = {a: o for a, o in result.obs.items() if a not in ended}
    lights = [any("light" in agent for agent in agents) for agents in asked]
    assert any(lights)
    assert not all(lights)


def test_a_wrapper_that_cannot_take_latecomers_is_told() -> None:
    env = marl.make_env("traffic", {}, ["black_death_v3"])
    obs, _ = env.reset(seed=1)
    with pytest.raises(EnvError, match=r"black_death.*wants an action of agent 'car_\d+'.*Leave this wrapper out"):
        for _ in range(50):
            obs = env.step({agent: env.action_space(agent).sample() for agent in obs}).obs


def test_a_wrapper_that_fails_in_the_first_reset_is_named() -> None:
    with pytest.raises(ConfigError, match=r"wrapper 'black_death_v3' with \{\} does not fit env 'two_step_game'"):
        marl.make_env("two_step_game", {}, ["black_death_v3"])
    with pytest.raises(ConfigError, match=r"wrapper 'black_death_v3' with \{\} does not fit env 'two_step_game'"):
        marl.make_env("two_step_game", {}, ["black_death_v3", "show_members"])


class LastOneStanding(AECEnv[str, Array, int]):
    """The loser of the first move leaves in an empty turn, and only then the other one is paid and ended.

    With ``tidy`` the rewards of a step are cleared in the next, as PettingZoo's own envs do; else they are left standing.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "last_one"}
    possible_agents: ClassVar[list[str]] = ["a", "b", "c"]
    render_mode = None

    def __init__(self, tidy: bool) -> None:
        self.tidy = tidy

    def observation_space(self, agent: str) -> Any:
        return BOX

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def observe(self, agent: str) -> Array:
        return np.zeros(2, np.float32)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents = list(self.possible_agents)
        self.rewards: dict[str, float] = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards: dict[str, float] = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {a: {} for a in self.agents}
        self.agent_selection = "a"

    def step(self, action: int | None) -> None:
        if self.terminations[self.agent_selection]:
            left_standing = dict(self.rewards)
            leaving = self.agent_selection
            self._was_dead_step(action)
            if not self.tidy:
                self.rewards = {a: r for a, r in left_standing.items() if a != leaving}
            if self.agents == ["c"] and not self.terminations["c"]:
                self.terminations["c"] = True
                self.rewards["c"] = 5.0
                self._cumulative_rewards["c"] += 5.0
                self.agent_selection = "c"
            return
        self.rewards = {"a": -1.0, "b": -2.0, "c": 2.0}
        self._accumulate_rewards()
        self.terminations |= {"a": True, "b": True}
        self.agent_selection = "a"


@pytest.mark.parametrize("tidy", [True, False])
def test_endings_and_rewards_of_empty_turns_count_once(tidy: bool) -> None:
    env = PettingZooTurnBasedEnv(LastOneStanding(tidy))
    env.reset(seed=0)
    result = env.step({"a": 0})
    assert result.terminated == {"a": True, "b": True, "c": True}
    assert set(result.obs) == {"a", "b", "c"}
    assert result.rewards == {"a": -1.0, "b": -2.0, "c": 7.0}
    assert not env.env.agents


def test_supersuit_over_an_env_whose_agents_come_back_says_that_it_cannot_be_done() -> None:
    class Phoenix(Unannounced):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.steps = 0
            return {a: np.zeros(2, np.float32) for a in "ab"}, {}

        def step(self, actions: Any) -> Any:
            self.steps += 1
            obs = {a: np.zeros(2, np.float32) for a in "ab"}
            return obs, {}, {"a": self.steps == 1, "__all__": False}, {}, {}

    marl.register_env("phoenix", lambda config: Phoenix())
    env = marl.make_env("phoenix", {}, [{"frame_stack_v1": {"stack_size": 2}}])
    env.reset(seed=0)
    env.step({"a": 0, "b": 0})
    with pytest.raises(EnvError, match="A SuperSuit wrapper cannot be put over an env whose agents come back"):
        env.step({"b": 0})
