"""``fast:rware`` against rware: the same start, actions and draws lead to the same observations, rewards and ends.

Live where rware is installed, by recorded episodes everywhere.
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from marl.data.task import Bools, Ints
from marl.envs.games.warehouse.games import WarehouseGames
from marl.envs.games.warehouse.right_of_way import right_of_way
from tests.envs.games.warehouse_golden import CASES, FILE, originals_arguments
from tests.envs.games.warehouse_pair import Pair, ToldWarehouses

OPEN = "..g..\n.xxx.\n.xxx.\n....."
LIVE: dict[str, dict[str, Any]] = {
    **CASES,
    "small": {"id": "rware-small-4ag-easy-v2", "max_steps": 50},
    "own plan": {"layout": OPEN, "n_agents": 8, "request_queue_size": 2, "reward_type": "global", "sensor_range": 0},
    "far sight": {
        "column_height": 2, "n_agents": 6, "request_queue_size": 3, "reward_type": "two_stage", "max_inactivity_steps": 25,
        "sensor_range": 2, "normalised_coordinates": True, "max_steps": None,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", LIVE)
def test_random_steps_agree_exactly(name: str) -> None:
    warehouse = pytest.importorskip("rware.warehouse").Warehouse
    config = LIVE[name]
    pair = Pair([warehouse(**originals_arguments(config)) for _ in range(3)], config)
    for _ in range(120):
        pair.step()
    assert pair.happened["paid"] > 0
    assert pair.happened["followed"] > 0 or pair.fast.config.n_agents == 2


@pytest.mark.parametrize("env_id", ["rware-tiny-2ag-v2", "rware-medium-3ag-hard-v2", "rware-large-19ag-easy-v2"])
def test_an_id_means_what_it_means_there(env_id: str) -> None:
    pytest.importorskip("rware")
    import gymnasium as gym

    known = gym.spec(env_id).kwargs
    asked = originals_arguments({"id": env_id})
    assert {key: asked[key] for key in known} == known
    env = gym.make(env_id, disable_env_checker=True).unwrapped
    fast = WarehouseGames(1, {"id": env_id})
    assert fast.kinds[0].observation_space == env.observation_space[0]
    assert fast.kinds[0].action_space == env.action_space[0]
    assert len(fast.seat_names) == env.n_agents


@pytest.mark.parametrize("name", CASES)
def test_recorded_episodes_are_played_again(name: str) -> None:
    with np.load(FILE) as file:
        told = {column.partition(".")[2]: file[column] for column in file.files if column.startswith(f"{name}.")}
    games = ToldWarehouses(1, CASES[name])
    first = games.place(0, told["robots"], told["wanted"])
    assert np.array_equal(first.obs[0][0], told["first"])
    for step, actions in enumerate(told["actions"]):
        drawn = int(told["requests"][step])
        games.told = {0: [] if drawn < 0 else [drawn]}
        output = games.step([actions[None].astype(np.int64)])
        assert np.array_equal(output.obs[0][0], told["obs"][step]), step
        assert np.array_equal(output.rewards[0], told["rewards"][step]), step
    assert told["rewards"].sum() > 0


# -- who may move ----------------------------------------------------------------------------------------------------


def by_a_graph(cells: list[tuple[int, int]], wished: list[tuple[int, int]]) -> list[bool]:
    """The rule of rware in the words of networkx: circles of three and more, of the others the longest queue."""
    graph = nx.DiGraph()
    for edge in zip(cells, wished, strict=True):
        graph.add_edge(*edge)
    moving: set[tuple[int, int]] = set()
    for nodes in nx.weakly_connected_components(graph):
        part = graph.subgraph(nodes).copy()
        try:
            circle = nx.find_cycle(part)
        except nx.NetworkXNoCycle:
            moving |= set(nx.dag_longest_path(part))
        else:
            moving |= {start for start, _ in circle} if len(circle) != 2 else set()
    return [cell in moving for cell in cells]


def crowds(rng: np.random.Generator, count: int, robots: int, side: int) -> tuple[Ints, Ints]:
    """Cells ``[count, robots]`` of a square, and wishes: to stay or to go to a neighbour."""
    cells = rng.permuted(np.tile(np.arange(side * side), (count, 1)), axis=1)[:, :robots]
    row, column = np.divmod(cells, side)
    down, right = np.array([(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)])[rng.integers(5, size=cells.shape)].transpose(
        2, 0, 1
    )
    return cells, np.clip(row + down, 0, side - 1) * side + np.clip(column + right, 0, side - 1)


@pytest.mark.parametrize(("robots", "side"), [(1, 2), (2, 2), (4, 2), (4, 3), (6, 4), (8, 3), (19, 8)])
def test_who_moves_is_who_moves_in_the_graph(robots: int, side: int) -> None:
    cells, wished = crowds(np.random.default_rng(0), 300, robots, side)
    columns_and_rows = np.stack(np.divmod(np.arange(side * side), side)[::-1], axis=1)
    moves: Bools = right_of_way(cells, wished, columns_and_rows)
    for row in range(len(cells)):
        starts, ends = ([tuple(place) for place in columns_and_rows[of[row]].tolist()] for of in (cells, wished))
        assert moves[row].tolist() == by_a_graph(starts, ends)


def test_a_circle_of_four_moves_and_two_who_would_change_places_stay() -> None:
    columns_and_rows = np.stack(np.divmod(np.arange(9), 3)[::-1], axis=1)
    circle = right_of_way(np.array([[0, 1, 4, 3, 2]]), np.array([[1, 4, 3, 0, 1]]), columns_and_rows)
    assert circle.tolist() == [[True, True, True, True, False]]
    swap = right_of_way(np.array([[0, 1, 2]]), np.array([[1, 0, 1]]), columns_and_rows)
    assert swap.tolist() == [[False, False, False]]
    queue = right_of_way(np.array([[2, 4, 7, 0]]), np.array([[1, 1, 4, 0]]), columns_and_rows)
    assert queue.tolist() == [[False, True, True, True]]
