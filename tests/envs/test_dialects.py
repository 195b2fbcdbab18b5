"""Envs in RLlib's dialect: spaces as attributes, agents that are numbers, masks under other names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv

import marl
from marl.data.agent_ids import as_number_too, text_id
from marl.envs.adapters.adapt import as_env, as_foreign
from marl.envs.adapters.envelopes import envelope_of
from marl.envs.adapters.plain import PlainEnv, plain
from marl.envs.check import check_env
from marl.envs.registry import make_batched_env, make_env
from marl.errors import EnvError, UserError
from marl.training.trainer import Trainer

SEEN, MOVES = spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(3)
TINY: dict[str, Any] = {"train_batch_size": 20, "sgd_minibatch_size": 10, "fcnet_hiddens": [4]}


class Numbered(marl.MultiAgentEnv):
    """As RLlib's examples write it."""

    def __init__(self, config: Any = None) -> None:
        super().__init__()
        self._agent_ids = {0, 1}
        self.observation_space: Any = SEEN
        self.action_space: Any = MOVES

    def _seen(self) -> dict[Any, Any]:
        return {i: np.full(2, i * 0.5, np.float32) for i in (0, 1)}

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Any:
        self.t = 0
        return self._seen(), {1: {"hint": 3}}

    def step(self, actions: Any) -> Any:
        assert set(actions) == {0, 1}
        self.t += 1
        over = self.t == 5
        return self._seen(), {0: 1.0, 1: 10.0}, {"__all__": over}, {"__all__": False}, {}


def test_numbers_as_agents_and_spaces_as_attributes_are_accepted() -> None:
    env = make_env(Numbered)
    assert env.possible_agents == ("agent_0", "agent_1")
    assert env.observation_space("agent_1") is SEEN
    assert env.action_space("agent_0") is MOVES
    obs, infos = env.reset(seed=0)
    assert (float(obs["agent_1"][0]), infos) == (0.5, {"agent_1": {"hint": 3}})
    assert env.step({"agent_0": 0, "agent_1": 1}).rewards == {"agent_0": 1.0, "agent_1": 10.0}
    assert check_env(Numbered) == []


def test_the_users_own_object_is_reached_through_the_translation() -> None:
    env = make_batched_env(Numbered, 1, {})
    assert isinstance(env.sub_env(0), Numbered)


@pytest.mark.parametrize(
    "mapping",
    [
        {0: "first", 1: "second"},
        {"agent_0": "first", "agent_1": "second"},
        lambda agent_id, *args, **kwargs: "first" if agent_id == 0 else "second",
        lambda agent_id: ["first", "second"][agent_id % 2],
        lambda agent_id, episode: ("first", "second")[agent_id],
        lambda agent_id: "first" if agent_id < 1 else "second",
        lambda agent_id: {"agent_0": "first", "agent_1": "second"}[agent_id],
    ],
)
def test_numbered_agents_are_mapped_by_their_numbers_or_their_names(mapping: Any) -> None:
    keys = {**TINY, "policies": {"first": {}, "second": {}}, "policy_mapping_fn": mapping}
    with Trainer("ppo", env=Numbered, config=keys) as trainer:
        result = trainer.train()
    assert result["policy_reward_mean"] == {"first": 5.0, "second": 50.0}


def test_groups_name_numbered_agents_by_their_numbers() -> None:
    env = Numbered().with_agent_groups({"both": [0, 1]})
    assert env.possible_agents == ("both",)
    env.reset(seed=0)
    assert env.step({"both": (1, 2)}).rewards == {"both": 11.0}
    with Trainer("qmix", env=Numbered, config={"groups": {"both": [0, 1]}}) as trainer:
        assert trainer.setup.task.groups == {"both": (0, 1)}


def test_a_numbered_agent_is_a_text_that_answers_as_its_number() -> None:
    agent = as_number_too("agent_12")
    assert agent == "agent_12"
    assert agent == 12
    assert agent != 11
    assert agent != "agent_11"
    assert {"agent_12": "x"}[agent] == "x"
    assert (int(agent), agent % 5, agent < 13, agent > 12, agent <= 12, agent >= 13) == (
        12,
        2,
        True,
        False,
        True,
        False,
    )  # type: ignore[operator]
    assert f"{agent}" == "agent_12"
    assert as_number_too("car_3") != 3
    assert (text_id(3), text_id(np.int64(3)), text_id("3")) == ("agent_3", "agent_3", "3")


def test_spaces_by_agent_may_be_a_dict_or_a_dict_space() -> None:
    class ByAgent(Numbered):
        def __init__(self, config: Any = None) -> None:
            super().__init__()
            self.observation_space = {0: SEEN, 1: spaces.Box(-2.0, 2.0, (2,), np.float32)}
            self.action_space = spaces.Dict({"0": MOVES, "1": spaces.Discrete(5)})

    env = make_env(ByAgent)
    assert env.observation_space("agent_1") == spaces.Box(-2.0, 2.0, (2,), np.float32)
    assert [env.action_space(agent) for agent in env.possible_agents] == [MOVES, spaces.Discrete(5)]


def test_a_space_that_is_missing_is_told_with_the_line_to_write() -> None:
    class Without(Numbered):
        def __init__(self, config: Any = None) -> None:
            super().__init__()
            del self.action_space

    with pytest.raises(EnvError, match=r"Without tells no action_space.*self.action_space = spaces.Discrete"):
        make_batched_env(Without, 1, {})
    with pytest.raises(EnvError, match=r"action_space is 3, which tells no space.*def action_space\(self, agent\)"):
        env = Numbered()
        env.action_space = 3
        plain(env)


def test_an_env_that_speaks_our_dialect_is_left_alone() -> None:
    env = make_env("two_step_game")
    assert plain(env) is env
    with pytest.raises(EnvError, match=r"names \(1, 2\) of the type tuple"):
        made = Numbered()
        made._agent_ids = {(1, 2)}  # type: ignore[arg-type]
        made.observation_space = made.action_space = MOVES
        make_batched_env(lambda: made, 1, {})


def test_an_answer_that_is_no_pair_is_told_as_ever() -> None:
    class OldReset(Numbered):
        def reset(self, **_: Any) -> Any:
            return super().reset()[0]

    with pytest.raises(EnvError, match=r"reset returned dict; expected the pair"):
        make_batched_env(OldReset, 1, {}).reset(np.array([0]), np.array([0]))


def test_a_run_with_numbered_agents_is_saved_and_goes_on(tmp_path: Any) -> None:
    with Trainer("ppo", env=Numbered, config={**TINY, "policy_mapping_fn": "per_agent"}) as trainer:
        trainer.train()
        path = trainer.save(tmp_path / "kept")
    with Trainer.from_checkpoint(path, env=Numbered) as again:
        assert set(again.policies) == {"agent_0", "agent_1"}
        assert again.train()["training_iteration"] == 2


# -- masks -----------------------------------------------------------------------------------------------------------

FLAGS = spaces.Box(0, 1, (3,), np.int8)
ONLY = np.array([0, 1, 0], np.int8)
X = np.zeros(2, np.float32)
FORMS: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "observations beside action_mask": ({"observations": SEEN, "action_mask": FLAGS}, {"observations": X, "action_mask": ONLY}, SEEN),
    "avail_actions": ({"obs": SEEN, "avail_actions": spaces.MultiBinary(3)}, {"obs": X, "avail_actions": ONLY}, SEEN),
    "another name": ({"grid": SEEN, "action_mask": spaces.MultiBinary(3)}, {"grid": X, "action_mask": ONLY}, SEEN),
    "several parts": (
        {"a": SEEN, "b": spaces.Discrete(2), "action_mask": FLAGS},
        {"a": X, "b": 1, "action_mask": ONLY},
        spaces.Dict({"a": SEEN, "b": spaces.Discrete(2)}),
    ),
    "a part beside observation": (
        {"observation": SEEN, "b": spaces.Discrete(2), "action_mask": FLAGS},
        {"observation": X, "b": 1, "action_mask": ONLY},
        spaces.Dict({"observation": SEEN, "b": spaces.Discrete(2)}),
    ),
    "vectors for actions": (
        {"cart": SEEN, "avail_actions": spaces.Box(-1, 1, (3, 2), np.float32), "action_mask": FLAGS},
        {"cart": X, "avail_actions": np.zeros((3, 2), np.float32), "action_mask": ONLY},
        spaces.Dict({"avail_actions": spaces.Box(-1, 1, (3, 2), np.float32), "cart": SEEN}),
    ),
    "the state alone": ({"state": SEEN, "action_mask": FLAGS}, {"state": X, "action_mask": ONLY}, SEEN),
}  # fmt: skip


def dict_env(space: spaces.Dict, shown: Any, played: list[int], acts: Any = MOVES) -> Any:
    class Masked(marl.MultiAgentEnv):
        possible_agents = ("a", "b")
        observation_space: Any = space
        action_space: Any = acts

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return dict.fromkeys("ab", shown), {}

        def step(self, actions: Any) -> Any:
            played.extend(actions.values())
            return dict.fromkeys("ab", shown), dict.fromkeys("ab", 0.0), {"__all__": True}, {}, {}

    return Masked


def gymnasium_env(space: spaces.Dict, shown: Any, played: list[int]) -> Any:
    class Masked(gym.Env[Any, Any]):
        observation_space: Any = space
        action_space: Any = MOVES

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return shown, {}

        def step(self, action: Any) -> Any:
            played.append(int(action))
            return shown, 0.0, True, False, {}

    return Masked


def pettingzoo_env(space: spaces.Dict, shown: Any, played: list[int]) -> Any:
    class Masked(ParallelEnv):
        metadata: dict[str, Any] = {"name": "masked"}  # noqa: RUF012
        possible_agents = ["a", "b"]  # noqa: RUF012

        def observation_space(self, agent: str) -> Any:
            return space

        def action_space(self, agent: str) -> Any:
            return MOVES

        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            self.agents = ["a", "b"]
            return dict.fromkeys("ab", shown), {a: {} for a in "ab"}

        def step(self, actions: Any) -> Any:
            played.extend(int(action) for action in actions.values())
            self.agents = []
            return (
                dict.fromkeys("ab", shown),
                dict.fromkeys("ab", 0.0),
                dict.fromkeys("ab", True),
                dict.fromkeys("ab", False),
                {},
            )

    return Masked


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind_of_env", [dict_env, gymnasium_env, pettingzoo_env])
def test_a_mask_is_found_in_any_dict_and_the_rest_is_the_observation(kind_of_env: Any, form: str) -> None:
    announced, shown, proper = FORMS[form]
    env = make_batched_env(kind_of_env(spaces.Dict(announced), shown, []), 1, {})
    (kind,) = env.kinds
    assert kind.masked
    assert kind.observation_space == proper
    frame = env.reset(np.array([0]), np.array([0]))
    assert frame.legal[0][0, 0].tolist() == [False, True, False]


@pytest.mark.parametrize("kind_of_env", [dict_env, gymnasium_env, pettingzoo_env])
def test_a_learner_keeps_to_a_mask_under_rllibs_names(kind_of_env: Any) -> None:
    played: list[int] = []
    announced, shown = {"observations": SEEN, "avail_actions": FLAGS}, {"observations": X, "avail_actions": ONLY}
    with Trainer("ppo", env=kind_of_env(spaces.Dict(announced), shown, played), config=TINY) as trainer:
        trainer.train()
        assert trainer.compute_action({**shown, "avail_actions": np.array([0, 0, 1], np.int8)}) == 2
    assert set(played) == {1}


@pytest.mark.parametrize("form", FORMS)
def test_an_observation_as_the_env_gives_it_is_answered(form: str) -> None:
    announced, shown, _ = FORMS[form]
    with Trainer("ppo", env=gymnasium_env(spaces.Dict(announced), shown, []), config=TINY) as trainer:
        for only in range(3):  # whatever the untrained network would like best
            masks = {key: np.eye(3, dtype=np.int8)[only] for key, value in shown.items() if value is ONLY}
            assert trainer.compute_action({**shown, **masks}) == only


@pytest.mark.parametrize(
    "other",
    [spaces.MultiBinary(4), spaces.Box(0, 1, (2, 3), np.int8), spaces.Discrete(3)],
    ids=["four flags", "six flags", "a number"],
)
@pytest.mark.parametrize("key", ["observation", "grid"])
def test_a_mask_of_another_size_is_an_ordinary_observation(other: Any, key: str) -> None:
    space = spaces.Dict({key: SEEN, "action_mask": other})
    shown = {key: X, "action_mask": other.sample()}
    env = make_batched_env(dict_env(space, shown, []), 1, {})
    (kind,) = env.kinds
    assert not kind.masked
    assert kind.obs_width == spaces.flatdim(space)
    frame = env.reset(np.array([0]), np.array([0]))
    np.testing.assert_array_equal(np.sort(frame.obs[0][0, 0]), np.sort(spaces.flatten(space, shown)))


def test_numbers_of_actions_are_no_mask() -> None:
    """RLlib's ``avail_actions`` may be anything; a mask says yes or no."""
    space = spaces.Dict({"obs": SEEN, "avail_actions": spaces.Box(-5, 5, (3,), np.float32)})
    assert envelope_of(space, MOVES) is None


def test_a_state_beside_the_mask_is_still_the_state() -> None:
    space = spaces.Dict({"observations": SEEN, "action_mask": FLAGS, "state": spaces.Box(-1, 1, (4,), np.float32)})
    shown = {"observations": X, "action_mask": ONLY, "state": np.arange(4, dtype=np.float32) / 4}
    env = make_batched_env(dict_env(space, shown, []), 1, {})
    assert env.state_size == 4
    assert env.reset(np.array([0]), np.array([0])).state[0].tolist() == [0.0, 0.25, 0.5, 0.75]


def test_a_part_that_is_missing_is_told() -> None:
    space = spaces.Dict({"observations": SEEN, "action_mask": FLAGS})
    env = make_batched_env(dict_env(space, {"obs": X, "action_mask": ONLY}, []), 1, {})
    with pytest.raises(
        UserError, match=r"agent 'a' has the keys 'obs', 'action_mask'; its space is a Dict with 'observations'"
    ):
        env.reset(np.array([0]), np.array([0]))


def test_agents_that_come_and_go_have_their_masks_opened() -> None:
    class Cars(marl.MultiAgentEnv):
        max_agents = {"car_*": 2}  # noqa: RUF012
        observation_space: Any = spaces.Dict({"grid": SEEN, "action_mask": FLAGS})
        action_space: Any = MOVES

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return {"car_7": {"grid": X, "action_mask": ONLY}}, {}

        def step(self, actions: Any) -> Any:
            return {}, {}, {"__all__": True}, {}, {}

    env = make_env(Cars)
    assert isinstance(env, PlainEnv)
    obs, _ = env.reset(seed=0)
    assert set(obs["car_7"]) == {"observation", "action_mask"}
    assert set(env.observation_space("car_7").spaces) == {"observation", "action_mask"}  # type: ignore[attr-defined]


def test_wrappers_of_other_libraries_still_reach_the_env_inside() -> None:
    space = spaces.Dict({"observations": SEEN, "action_mask": FLAGS})
    made = pettingzoo_env(space, {"observations": X, "action_mask": ONLY}, [])()
    env = as_env(made, "masked")
    assert isinstance(env, PlainEnv)
    assert as_foreign(env) is made
