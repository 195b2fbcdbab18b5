"""``fast:rware`` beside envs of rware, started from their layouts and given what they draw."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from marl.data.task import Array, Ints
from marl.envs.batched import StepOutput
from marl.envs.games.warehouse.games import WarehouseGames

STAY, FORWARD, LEFT, RIGHT, LOAD = range(5)
RANDOM = [0.05, 0.55, 0.1, 0.1, 0.2]


class ToldWarehouses(WarehouseGames):
    """Wants next what it is told."""

    told: dict[int, list[int]]  # type: ignore[assignment]

    def _draw_request(self, env_ids: Ints) -> Ints:
        return np.array([self.told[int(env_id)].pop(0) for env_id in env_ids])


def remember_requests(env: Any, into: list[int]) -> None:
    """Let an env of rware note the shelf that it draws when one was delivered."""
    drawn = env.np_random.choice

    class Noting:
        def choice(self, *arguments: Any, **keys: Any) -> Any:
            chosen = drawn(*arguments, **keys)
            if "size" not in keys:
                into.append(chosen.id - 1)
            return chosen

    env._np_random = Noting()


class Pair:
    """One round is a step of all copies; episodes start anew where they end."""

    def __init__(self, envs: list[Any], config: dict[str, Any], seed: int = 0) -> None:
        self.envs = envs
        self.fast = ToldWarehouses(len(envs), config)
        self.fast.told = {env_id: [] for env_id in range(len(envs))}
        self.rng = np.random.default_rng(seed)
        self.happened: Counter[str] = Counter()
        self.log: list[dict[str, Any]] = []
        for env_id in range(len(envs)):
            self.start(env_id)

    def start(self, env_id: int) -> None:
        env = self.envs[env_id]
        expected, _ = env.reset(seed=int(self.rng.integers(2**31)))
        remember_requests(env, self.fast.told[env_id])
        robots = [(agent.y, agent.x, agent.dir.value) for agent in env.agents]
        output = self.fast.place(env_id, robots, [shelf.id - 1 for shelf in env.request_queue])
        self.compare(output, env_id, expected)

    def step(self) -> None:
        robots = self.fast.config.n_agents
        actions = self.rng.choice(5, p=RANDOM, size=(len(self.envs), robots))
        for env_id, env in enumerate(self.envs):
            deliver(actions[env_id], env)
        told = [env.step(actions[env_id].tolist()) for env_id, env in enumerate(self.envs)]
        requests = [list(drawn) for drawn in self.fast.told.values()]
        output = self.fast.step([actions])
        self.log.append({"actions": actions, "requests": requests, "rewards": output.rewards, "obs": output.obs[0]})
        ended: list[int] = []
        for env_id, (expected, rewards, over, _, _) in enumerate(told):
            assert output.rewards[env_id].tolist() == rewards
            assert output.truncated[env_id].tolist() == [over] * robots
            assert not output.terminated.any()
            assert bool(output.over[env_id]) == over
            assert not self.fast.told[env_id]
            self.compare(output, env_id, expected)
            self.count(env_id, rewards)
            if over:
                ended.append(env_id)
        for env_id in ended:
            self.start(env_id)

    def compare(self, output: StepOutput, env_id: int, expected: tuple[Array, ...]) -> None:
        wanted = np.stack(expected)
        assert np.array_equal(output.obs[0][env_id], wanted)
        assert np.array_equal(output.state[env_id], wanted.ravel())

    def count(self, env_id: int, rewards: list[float]) -> None:
        """What the run came across."""
        env = self.envs[env_id]
        self.happened["paid"] += sum(reward > 0 for reward in rewards)
        self.happened["carried"] += sum(agent.carrying_shelf is not None for agent in env.agents)
        before = {(agent.prev_x, agent.prev_y): agent for agent in env.agents}
        for agent in env.agents:
            moved = (agent.x, agent.y) != (agent.prev_x, agent.prev_y)
            follows = before.get((agent.x, agent.y))
            self.happened["followed"] += moved and follows is not None


def deliver(actions: Array, env: Any) -> None:
    """Let the first robot fetch a wanted shelf and bring it to a goal, for by chance nobody delivers any."""
    robot = env.agents[0]
    loaded = robot.carrying_shelf is not None
    if loaded and robot.carrying_shelf not in env.request_queue:
        return
    aim = env.goals[0] if loaded else (env.request_queue[0].x, env.request_queue[0].y)
    place = robot.x, robot.y
    towards = next_cell(env, place, aim, loaded)
    if place == aim:
        actions[0] = STAY if loaded else LOAD
    elif towards is not None:
        heading = {(0, -1): 0, (0, 1): 1, (-1, 0): 2, (1, 0): 3}[(towards[0] - place[0], towards[1] - place[1])]
        actions[0] = FORWARD if robot.dir.value == heading else RIGHT


def next_cell(env: Any, start: tuple[int, int], aim: tuple[int, int], loaded: bool) -> tuple[int, int] | None:
    """On a shortest way; with a shelf, not below others."""
    rows, columns = env.grid_size
    came: dict[tuple[int, int], tuple[int, int]] = {aim: aim}
    reached = [aim]
    while reached:
        here = reached.pop(0)
        for right, down in ((0, 1), (0, -1), (1, 0), (-1, 0)):
            near = here[0] + right, here[1] + down
            inside = 0 <= near[0] < columns and 0 <= near[1] < rows
            blocked = inside and loaded and near != start and env.grid[1, near[1], near[0]]
            if inside and not blocked and near not in came:
                came[near] = here
                reached.append(near)
    return came.get(start)
