"""``marl.drive``: an env here, whose actions come from a server."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import marl
from marl.envs.base import MultiAgentEnv
from marl.envs.external.contract import Contract
from marl.envs.registry import make_env
from marl.serve.env_contract import action_from_json
from marl.serve.hub import Hub, Limits
from tests.serve.drawn import DrawingStage, drawing_server, played_here
from tests.serve.instant import serving
from tests.serve.waiting import InThread, wait_until


class Parts(gym.Env[Any, Any]):
    """Tuple and Dict spaces, and a Box of bytes. An action is right where all its parts are of the right type."""

    observation_space = spaces.Dict(
        {
            "where": spaces.Tuple((spaces.Discrete(3, start=1), spaces.Box(0, 255, (2, 2), np.uint8))),
            "on": spaces.MultiBinary(2),
        }
    )
    action_space = spaces.Tuple(
        (spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([3, 4]), spaces.Dict({"b": spaces.Discrete(2)}))
    )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self._seen(), {"object": object(), "nan": float("nan"), "fine": [np.float32(0.5)]}

    def _seen(self) -> Any:
        bytes_ = self.np_random.integers(0, 256, (2, 2)).astype(np.uint8)
        return {"where": (np.int64(self.t % 3 + 1), bytes_), "on": np.array([self.t % 2, 1], np.int8)}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.t += 1
        return self._seen(), float(action[0].sum()) + action[2]["b"], False, self.t == 5, {}


class Stateful(MultiAgentEnv):
    """Has a global state, and never says ``__all__``: the episode ends with the last agent."""

    possible_agents = ("a", "b")

    def __init__(self) -> None:
        self.t = 0

    def observation_space(self, agent: str) -> Any:
        return ONE

    def action_space(self, agent: str) -> Any:
        return TWO

    def state(self) -> Any:
        return np.array([self.t, -1.0], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        return {"a": [0.5], "b": [0.5]}, {}

    def step(self, actions: Any) -> Any:
        self.t += 1
        assert set(actions) == ({"a", "b"} if self.t < 3 else {"b"})
        ends = {"a": self.t == 2, "b": self.t == 4}
        obs = {agent: [0.5] for agent in actions}
        return obs, dict.fromkeys(actions, 1.0), {agent: ends[agent] for agent in actions}, {}, {}


ONE, TWO = spaces.Box(0, 1, (1,)), spaces.Discrete(2)
ENVS: dict[str, Any] = {
    "Gymnasium": lambda: make_env("CartPole-v1"),
    "continuous": lambda: make_env("Pendulum-v1"),
    "two agents with a state": lambda: make_env("two_step_game"),
    "agents that come and go": lambda: make_env("traffic"),
    "turns and masks": lambda: make_env("pettingzoo:classic/tictactoe_v3"),
    "Tuple and Dict": lambda: make_env(Parts),
    "the last agent ends it": Stateful,
}


@pytest.mark.parametrize("transport", ["ws", "http"])
@pytest.mark.parametrize("name", ENVS)
def test_an_episode_over_the_network_is_the_episode_that_is_played_here(name: str, transport: str) -> None:
    _, hub = drawing_server()
    with serving(hub) as server:
        driven = marl.drive(ENVS[name](), server.url, episodes=2, transport=transport)
    assert driven.episodes == 2
    assert driven.why == "all episodes are played"
    for seed, returns in zip((100, 101), driven.returns, strict=True):
        here = played_here(ENVS[name](), seed)
        assert {a: earned for a, earned in returns.items() if earned} == pytest.approx(
            {a: earned for a, earned in here.items() if earned}
        )
    assert hub.counters.ended == 2
    assert hub.counters.repeated == 0


def test_a_global_state_is_sent_where_the_server_wants_it_and_only_there() -> None:
    stage, hub = drawing_server()
    with serving(hub) as server:
        marl.drive(Stateful(), server.url, episodes=1)
        assert [step.state.tolist() for step in stage.seen] == [[t, -1.0] for t in range(5)]
        assert stage.contract is not None
        agents = stage.contract.agents
    stage, hub = drawing_server(Contract(agents, state_size=0))  # as where policies were trained that need none
    with serving(hub) as server:
        marl.drive(Stateful(), server.url, episodes=1)
    assert [step.state for step in stage.seen] == [None] * 5


def test_an_env_may_be_given_by_its_name_its_class_or_as_an_object_of_any_library() -> None:
    from pettingzoo.classic import tictactoe_v3

    for env in ("CartPole-v1", Parts, gym.make("CartPole-v1"), tictactoe_v3.env()):
        _, hub = drawing_server()
        with serving(hub) as server:
            assert marl.drive(env, server.url, episodes=1).episodes == 1


def test_only_what_json_can_hold_is_sent_of_infos() -> None:
    stage, hub = drawing_server()
    with serving(hub) as server:
        marl.drive(Parts, server.url, episodes=1)
    assert [report.info for report in stage.seen[0].agents.values()] == [{"fine": [0.5]}]


def test_an_action_beyond_its_bounds_reaches_the_env_as_it_is() -> None:
    """As in a run with ``clip_actions: false``."""
    found = action_from_json(spaces.Tuple((spaces.Box(-1, 1, (2,)), spaces.Discrete(3))), [[5.0, -0.5], 2])
    assert found[0].tolist() == [5.0, -0.5]
    assert found[0].dtype == np.float32
    assert found[1] == 2


class Killed(BaseException):
    """The process died."""


class Mortal(gym.Wrapper[Any, Any, Any, Any]):
    """Something happens in its n-th step."""

    def __init__(self, env: Any, steps: int, error: BaseException) -> None:
        super().__init__(env)
        self.left, self.error = steps, error

    def step(self, action: Any) -> Any:
        self.left -= 1
        if not self.left:
            raise self.error
        return self.env.step(action)


def test_a_driver_that_was_killed_goes_on_with_its_episode_under_its_name() -> None:
    _, hub = drawing_server()
    with serving(hub) as server:
        with pytest.raises(Killed):
            marl.drive(Mortal(gym.make("CartPole-v1"), 6, Killed()), server.url, name="robot 7")
        assert hub.counters.open == 1
        driven = marl.drive("CartPole-v1", server.url, name="robot 7", episodes=2)
    assert driven.returns == [played_here(make_env("CartPole-v1"), seed) for seed in (100, 101)]
    assert (hub.counters.begun, hub.counters.ended, driven.abandoned) == (2, 2, 0)
    assert hub.counters.repeated == 0  # what the server remembers is played here, not asked for again


class Whimsical(gym.Wrapper[Any, Any, Any, Any]):
    """An env that does not repeat itself by its seed."""

    def reset(self, **options: Any) -> Any:
        return self.env.reset(seed=np.random.default_rng().integers(2**31).item())


def test_an_episode_that_cannot_be_repeated_is_cut_off_and_the_next_one_begins() -> None:
    stage, hub = drawing_server()
    stage.held = True  # its first step is taken, and the process is gone before it has been answered
    with serving(hub) as server:
        gone = marl.drive(Whimsical(gym.make("CartPole-v1")), server.url, name="w", timeout=0.2, patience=0.0)
        assert gone.why.startswith("the server is gone")
        assert len(stage.waiting) == 1
        again = InThread(Whimsical(gym.make("CartPole-v1")), server.url, name="w", episodes=1)
        wait_until(lambda: hub.counters.gaps > 0)
        stage.release()
        driven = again.result()
    assert (driven.episodes, driven.abandoned) == (1, 1)
    assert (hub.counters.begun, hub.counters.ended) == (2, 2)


def test_ctrl_c_cuts_the_episode_off_and_says_so() -> None:
    stage, hub = drawing_server()
    with serving(hub) as server:
        driven = marl.drive(Mortal(gym.make("CartPole-v1"), 3, KeyboardInterrupt()), server.url)
    assert driven.why == "interrupted"
    assert (driven.episodes, driven.abandoned, hub.counters.open, hub.counters.ended) == (0, 1, 0, 1)
    assert [step.ends for step in stage.seen] == [False, False, False, True]


def test_a_driver_ends_when_its_server_closes() -> None:
    stage, hub = drawing_server()
    stage.held = True
    with serving(hub) as server:
        driving = InThread("CartPole-v1", server.url)
        wait_until(lambda: bool(stage.waiting))
    driven = driving.result()
    assert "the server is gone" in driven.why
    assert "stops" in driven.why or "closing" in driven.why


def test_a_driver_stops_between_two_episodes_when_it_is_told_to() -> None:
    _, hub = drawing_server()
    asked: list[bool] = []

    def third_time() -> bool:
        asked.append(True)
        return len(asked) == 3

    with serving(hub) as server:
        driven = marl.drive("CartPole-v1", server.url, stop=third_time)
    assert (driven.episodes, driven.why) == (2, "stopped")


def test_an_episode_that_the_server_has_ended_is_left_and_the_next_one_begins() -> None:
    """A driver that was silent for too long."""
    now = [0.0]
    stage = DrawingStage()
    hub = stage.hub = Hub(stage, Limits(), clock=lambda: now[0])

    class Slow(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            if not now[0]:
                now[0] = 2 * hub.limits.episode_timeout_s
                hub.sweep()
            return self.env.step(action)

    with serving(hub) as server:
        driven = marl.drive(Slow(gym.make("CartPole-v1")), server.url, episodes=1)
    assert (driven.episodes, driven.abandoned) == (1, 1)


def test_an_env_that_does_not_fit_is_refused_by_agent_with_what_is_expected() -> None:
    _, hub = drawing_server()
    with serving(hub) as server:
        marl.drive("CartPole-v1", server.url, episodes=1)
        with pytest.raises(marl.PolicyClientError, match="observation_space") as refused:
            marl.drive("Pendulum-v1", server.url, episodes=1)
    assert refused.value.code == "contract"
    assert refused.value.details["agent"] == "agent_0"


def test_a_server_that_was_never_there_is_an_error() -> None:
    with pytest.raises(marl.PolicyClientError, match="does not answer") as refused:
        marl.drive("CartPole-v1", "http://127.0.0.1:9", patience=0.0)
    assert refused.value.code == "unreachable"
