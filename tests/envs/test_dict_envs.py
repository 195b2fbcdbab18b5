"""Dicts at the edge, arrays inside: lifting, single envs, Gymnasium, PettingZoo, registering, checking."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import marl
from marl.envs.base import ENV_STATE, EnvContext
from marl.envs.games.traffic import TrafficGames
from marl.envs.games.two_step import TwoStepGames
from marl.envs.registry import make_batched_env, make_env, register_env
from marl.envs.vector.unbatched import SingleLane
from marl.envs.vector.vector_env import DictVector
from marl.errors import ConfigError, EnvError, UnknownNameError
from tests.small_envs import ACT, OBS, Scripted, Step


def test_a_native_env_lifted_back_from_its_dict_view_shows_the_same() -> None:
    native = TrafficGames(1, {"max_cars": 4})
    lifted = DictVector([SingleLane(TrafficGames, {"max_cars": 4})], "traffic")
    rng = np.random.default_rng(0)
    frames = [env.reset(np.array([0]), np.array([5])) for env in (native, lifted)]
    for _ in range(100):
        # Seats may be given out in another order: compare by agent id.
        views = [_by_agent(env, frame) for env, frame in zip((native, lifted), frames, strict=True)]
        assert views[0] == views[1]
        choice = {name: int(rng.integers(2)) for name in views[0]["present"]}
        frames = [env.step(_columns(env, choice)) for env in (native, lifted)]
    assert [bool(frame.over[0]) for frame in frames] == [True, True]


def _by_agent(env: Any, frame: Any) -> dict[str, Any]:
    present = {env.agent_at(0, s): s for s in np.flatnonzero(frame.present[0]).tolist()}
    kinds = [(k, kind.first_seat + i, i) for k, kind in enumerate(env.kinds) for i in range(kind.size)]
    place = {seat: (k, i) for k, seat, i in kinds}
    return {
        "present": sorted(present),
        "obs": {a: frame.obs[place[s][0]][0, place[s][1]].tolist() for a, s in present.items()},
        "rewards": {env.agent_at(0, s): float(r) for s, r in enumerate(frame.rewards[0]) if r},
        "ended": sorted(env.agent_at(0, s) for s in np.flatnonzero(frame.terminated[0] | frame.truncated[0]).tolist()),
        "state": frame.state.tolist(),
    }


def _columns(env: Any, choice: dict[str, int]) -> list[Any]:
    columns = [np.zeros((1, kind.size), np.int64) for kind in env.kinds]
    for k, kind in enumerate(env.kinds):
        for i in range(kind.size):
            columns[k][0, i] = choice.get(env.agent_at(0, kind.first_seat + i), 0)
    return columns


def test_the_two_step_game_through_dicts() -> None:
    env = make_env("two_step_game")
    obs, _ = env.reset(seed=0)
    assert obs["agent_0"].tolist() == [1, 0, 0, 1]
    obs, rewards, terminated, _, _ = env.step({"agent_0": 1, "agent_1": 0})
    assert obs["agent_1"].tolist() == [0, 0, 1, 2]
    assert not terminated["__all__"]
    state = env.state()
    assert state is not None
    assert state.tolist() == [0, 0, 1]
    _, rewards, terminated, _, _ = env.step({"agent_0": 1, "agent_1": 1})
    assert rewards == {"agent_0": 4.0, "agent_1": 4.0}
    assert terminated["__all__"]


def test_separate_state_space_puts_the_state_beside_the_observation() -> None:
    env = make_env("two_step_game", {"separate_state_space": True})
    obs, _ = env.reset(seed=0)
    assert obs["agent_0"][ENV_STATE].tolist() == [1, 0, 0]
    assert env.observation_space("agent_0").contains(obs["agent_0"])
    lifted = DictVector([env], "two_step")
    assert lifted.kinds[0].observation_space == spaces.MultiDiscrete([2, 2, 2, 3])


class Masked(Scripted):
    """Observations come in an envelope with an action mask."""

    space = spaces.Dict({"observation": OBS, "action_mask": spaces.MultiBinary(3)})

    def observation_space(self, agent: str) -> Any:
        return self.space

    def _obs(self, agents: Any) -> dict[str, Any]:
        mask = np.array([0, 1, 0], np.int8)
        return {a: {"observation": o, "action_mask": mask} for a, o in super()._obs(agents).items()}


def test_masks_are_found_in_the_observation() -> None:
    env = DictVector([Masked(["a_0"], [Step(["a_0"])], agents=["a_0"])], "masked")
    frame = env.reset(np.array([0]), np.array([0]))
    assert env.kinds[0].masked
    assert frame.legal[0].tolist() == [[[False, True, False]]]


@pytest.mark.parametrize(
    ("space", "value", "stored"),
    [
        (spaces.Discrete(5, start=2), 4, [2]),
        (spaces.MultiDiscrete([3, 4]), np.array([1, 2]), [1, 2]),
        (spaces.MultiBinary(3), np.array([1, 0, 1], np.int8), [1, 0, 1]),
        (spaces.Box(0, 255, (2, 2), np.uint8), np.array([[1, 2], [3, 4]], np.uint8), [1, 2, 3, 4]),
        (spaces.Tuple((spaces.Discrete(2), OBS)), (1, np.array([7.0, 8.0], np.float32)), [0, 1, 7, 8]),
        (spaces.Dict({"x": spaces.Discrete(3), "y": OBS}), {"x": 2, "y": np.ones(2, np.float32)}, [0, 0, 1, 1, 1]),
    ],
)
def test_every_kind_of_observation_space_is_stored_flat(space: Any, value: Any, stored: list[int]) -> None:
    class Odd(Scripted):
        def observation_space(self, agent: str) -> Any:
            return space

        def _obs(self, agents: Any) -> dict[str, Any]:
            return dict.fromkeys(agents, value)

    env = DictVector([Odd(["a_0"], [Step(["a_0"])], agents=["a_0"])], "odd")
    assert env.reset(np.array([0]), np.array([0])).obs[0][0, 0].tolist() == stored


def test_agents_with_equal_spaces_are_one_kind() -> None:
    class Two(Scripted):
        def action_space(self, agent: str) -> Any:
            return ACT if agent.startswith("wolf") else spaces.Discrete(2)

    env = DictVector([Two(["wolf_1"], [], agents=["wolf_1", "sheep_1", "wolf_2"])], "two")
    assert [(kind.name, kind.agents) for kind in env.kinds] == [
        ("wolf", ("wolf_1", "wolf_2")),
        ("sheep", ("sheep_1",)),
    ]


def test_a_gymnasium_env_is_an_env_with_one_agent() -> None:
    env = make_batched_env("CartPole-v1", 2, {})
    frame = env.reset(np.arange(2), np.array([3, 4]))
    expected, _ = gym.make("CartPole-v1").reset(seed=4)
    assert frame.obs[0][1, 0].tolist() == expected.tolist()


def test_a_pettingzoo_parallel_env_by_name_and_with_its_config() -> None:
    env = make_batched_env("pettingzoo:mpe2/simple_spread_v3", 1, {"N": 2, "max_cycles": 3})
    assert env.kinds[0].agents == ("agent_0", "agent_1")
    env.reset(np.array([0]), np.array([0]))
    stay = [np.zeros((1, 2), np.int64)]
    assert [bool(env.step(stay).over[0]) for _ in range(2)] == [False, False]
    last = env.step(stay)
    assert last.over[0]
    assert last.truncated.all()


def make_counting(config: EnvContext) -> Scripted:
    SEEN.append((config.worker_index, config.vector_index, config.num_workers, dict(config)))
    return Scripted(["a_0"], [Step([], {}, ["__all__"])], agents=["a_0"])


SEEN: list[Any] = []


def test_every_copy_knows_where_it_lives() -> None:
    SEEN.clear()
    register_env("counting", make_counting)
    make_batched_env("counting", 2, {"x": 1}, worker_index=3, num_workers=4)
    assert SEEN == [(3, 0, 4, {"x": 1}), (3, 1, 4, {"x": 1})]


def test_an_env_can_be_registered_by_its_path_and_named_by_it() -> None:
    register_env("by_path", f"{__name__}:make_counting")
    assert make_batched_env("by_path", 1, {}).kinds[0].agents == ("a_0",)
    assert make_batched_env(f"{__name__}:make_counting", 1, {}).kinds[0].agents == ("a_0",)


def test_unknown_envs_get_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'two_step_game'"):
        make_batched_env("two_stp_game", 1, {})
    with pytest.raises(UnknownNameError, match="CartPole-v1"):
        make_batched_env("CartPole-v11", 1, {})
    with pytest.raises(ConfigError, match="cannot import 'no_such_package'"):
        make_batched_env("no_such_package:Env", 1, {})
    with pytest.raises(ConfigError, match=r"unknown key 'one_hot'.*Did you mean|Known keys"):
        make_batched_env("two_step_game", 1, {"one_hot": True})


def test_an_episode_without_get_state_is_replayed_from_its_seed_and_actions() -> None:
    envs = [make_batched_env("CartPole-v1", 2, {}) for _ in range(2)]
    envs[0].reset(np.arange(2), np.array([1, 2]))
    for _ in range(7):
        frame = envs[0].step([np.ones((2, 1), np.int64)])
    restored = envs[1].set_state(envs[0].get_state())
    assert restored.obs[0].tolist() == frame.obs[0].tolist()
    later = [env.step([np.zeros((2, 1), np.int64)]).obs[0].tolist() for env in envs]
    assert later[0] == later[1]


class Forgetful(Scripted):
    """Remembers over resets how often it was stepped: cannot be replayed."""

    age = 0
    get_state = None  # type: ignore[assignment]

    def _obs(self, agents: Any) -> dict[str, Any]:
        self.age += 1
        return {a: np.array([self.age, 0], np.float32) for a in agents}


def test_an_env_that_does_not_repeat_itself_is_found_out_and_the_remedy_works() -> None:
    def make(_: Any) -> Forgetful:
        return Forgetful(["a_0"], [Step(["a_0"]), Step(["a_0"]), Step([], {}, ["__all__"])], agents=["a_0"])

    for fresh in (False, True):
        old, new = (make_batched_env(make, 1, {}, fresh_env_per_episode=fresh) for _ in range(2))
        for _ in range(2):
            old.reset(np.array([0]), np.array([0]))
            old.step([np.zeros((1, 1), np.int64)])
        if fresh:
            assert new.set_state(old.get_state()).obs[0][0, 0, 0] == 2
        else:
            with pytest.raises(EnvError, match="fresh_env_per_episode"):
                new.set_state(old.get_state())


@pytest.mark.slow
def test_the_checker_is_silent_about_good_envs() -> None:
    for name in ("two_step_game", "matrix_game", "traffic", "CartPole-v1", "Pendulum-v1"):
        assert marl.check_env(name) == []


class Bad(Scripted):
    def _obs(self, agents: Any) -> dict[str, Any]:
        shared = np.array([np.nan, 1.0], np.float64)
        return dict.fromkeys(agents, shared)


def test_the_checker_names_what_is_wrong() -> None:
    steps = [Step(["a_0", "a_1"]), Step(["a_0"], {"a_0": float("nan")}, truncated=["a_1"], last=[])]
    problems = marl.check_env(Bad(["a_0", "a_1"], [*steps, Step([], {}, ["__all__"])], agents=["a_0", "a_1"]), steps=3)
    text = "\n".join(map(str, problems))
    for part in (
        "holds NaN",
        "not in its space",
        "same array object",
        "without a last observation",
        "reward of agent 'a_0' is nan",
    ):
        assert part in text, part


def test_a_reward_for_somebody_unknown_is_an_error_with_the_nearest_name() -> None:
    env = Scripted(["a_0"], [Step(["a_0"], {"A_0": 1.0})], agents=["a_0"])
    assert "agent 'A_0' is not in possible_agents (a_0). Did you mean 'a_0'?" in str(marl.check_env(env, steps=1)[0])


class Late(Scripted):
    """The second agent comes late, and the env has no state of its own."""

    get_state = None  # type: ignore[assignment]


def test_an_episode_with_late_agents_is_replayed_in_a_new_object() -> None:
    def make(_: Any) -> Late:
        steps = [Step(["a_0"]), Step(["a_0", "a_1"]), Step([], {}, ["__all__"])]
        return Late(["a_0"], steps, agents=["a_0", "a_1"])

    old, new = (make_batched_env(make, 1, {}) for _ in range(2))
    for _ in range(2):
        old.reset(np.array([0]), np.array([0]))
        for _ in range(2):
            old.step([np.zeros((1, 2), np.int64)])
    old.reset(np.array([0]), np.array([0]))
    assert new.set_state(old.get_state()).obs[0].tolist() == [[[0.0, 0.0], [0.0, 0.0]]]
    assert marl.check_env(make(None)) == []


def test_the_state_may_come_inside_the_observations() -> None:
    env = DictVector([make_env("two_step_game", {"separate_state_space": True})], "two_step")
    assert env.state_size == 3
    assert env.reset(np.array([0]), np.array([0])).state.tolist() == [[1, 0, 0]]
    assert env.step([np.array([[1, 0]])]).state.tolist() == [[0, 0, 1]]


def test_an_observation_of_another_width_is_not_stretched() -> None:
    class Narrow(Scripted):
        def _obs(self, agents: Any) -> dict[str, Any]:
            return {a: np.zeros(1, np.float32) for a in agents}

    for agents in (["a_0"], ["a_0", "a_1"]):
        env = DictVector([Narrow(agents, [], agents=agents)], "narrow")
        with pytest.raises(EnvError, match=r"agent 'a_0' has shape \(1,\), its space says"):
            env.reset(np.array([0]), np.array([0]))


def test_a_mask_that_the_space_does_not_announce_is_an_error_with_the_remedy() -> None:
    class Sneaky(Scripted):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return super().reset()[0], {"a_0": {"action_mask": np.ones(3)}}

    env = DictVector([Sneaky(["a_0"], [], agents=["a_0", "a_1"])], "sneaky")
    with pytest.raises(EnvError, match=r"action_mask=MultiBinary"):
        env.reset(np.array([0]), np.array([0]))


def test_the_checker_looks_at_resets_and_at_native_envs() -> None:
    class Far(Scripted):
        def observation_space(self, agent: str) -> Any:
            return FAR

    assert "not in its space" in str(
        marl.check_env(Far(["a_0"], [Step([], {}, ["__all__"])], agents=["a_0"]), steps=0)[0]
    )

    class Wide(TwoStepGames):
        def _view(self) -> Any:
            obs, legal, present, state = super()._view()
            return (obs[0][..., :2],), legal, present, state

    assert "frame.obs[0] has shape (1, 2, 2), expected (1, 2, 4)" in str(marl.check_env(Wide)[0])


FAR = spaces.Box(5, 9, (2,), np.float32)


def test_an_id_without_a_star_is_one_agent_among_those_that_come_and_go() -> None:
    def make(count: int) -> Scripted:
        steps = [Step(["boss_1", "car_1"]), Step([], {"boss_1": 1.0}, ["__all__"])]
        return Scripted(["boss_1"], steps, patterns={"boss_1": count, "car_*": 2})

    assert DictVector([make(1)], "boss").seat_names == ("boss_1", "car_*[0]", "car_*[1]")
    assert marl.check_env(make(1)) == []
    keys = {"policy_mapping_fn": {"boss_1": "boss", "car_*": "cars"}, "train_batch_size": 8, "fcnet_hiddens": [4]}
    with marl.Trainer("ppo", env=lambda _: make(1), config={**keys, "evaluation": {"interval": 0}}) as trainer:
        assert trainer.train()["policy_reward_mean"] == {"boss": 1.0, "cars": 0.0}
    with pytest.raises(EnvError, match=r"without a \* it is the id of one agent"):
        DictVector([make(2)], "boss")


def test_a_native_env_is_registered_by_its_path_too() -> None:
    register_env("native_by_path", "marl.envs.games.two_step:TwoStepGames")
    assert make_batched_env("native_by_path", 3, {}).num_envs == 3
