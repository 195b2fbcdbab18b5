"""Congestion and graphical games as envs: rewards by hand and by slow loops, observations, graphs, mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import marl
from marl.envs.batched import NativeEnv, StepOutput
from marl.envs.games.networks.congestion import CongestionGames
from marl.envs.games.networks.graphical import GraphicalGames
from marl.envs.games.networks.graphs import GENERATORS
from marl.envs.games.networks.neighbours import graphical_of
from marl.envs.games.networks.routing import congestion_of
from marl.errors import ConfigError, UnknownNameError
from marl.gametheory.networks import congestion_nash_conv
from marl.scenario.load import load_scenario
from marl.training.trainer import Trainer

SCENARIO = Path(__file__).parents[2] / "scenarios" / "braess_ppo.yaml"
ROADS: list[dict[str, Any]] = [
    {"from": "a", "to": "b", "delay": [1, 1]},
    {"from": "a", "to": "b", "free_flow_time": 2, "capacity": 2},
    {"from": "b", "to": "c", "delay": [0, 0, 1]},
]
TRIPS = [{"from": "b", "to": "c", "agents": 1}, {"from": "a", "to": "c", "agents": 2}]


def started(env: NativeEnv) -> StepOutput:
    return env.reset(np.arange(env.num_envs), np.arange(env.num_envs))


def braess(*choices: int, **keys: Any) -> list[float]:
    """Rewards of four drivers on the Braess network."""
    env = CongestionGames(1, keys)
    started(env)
    return env.step([np.array([choices])]).rewards[0].tolist()


# -- congestion ------------------------------------------------------------------------------------------------------


def test_four_drivers_on_the_link_take_2_and_split_ones_take_one_and_a_half() -> None:
    assert congestion_of({}).path_names == ("s > a > t", "s > b > t", "s > a > b > t")
    assert braess(2, 2, 2, 2) == [-2.0] * 4
    assert braess(0, 0, 1, 1) == [-1.5] * 4
    assert braess(0, 1, 2, 2) == [-1.75, -1.75, -1.5, -1.5]


def test_flow_per_agent_scales_the_load() -> None:
    assert braess(2, 2, 2, 2, flow_per_agent=1.0) == [-8.0] * 4


def test_trips_with_one_and_with_two_paths_share_the_last_road() -> None:
    """By hand: b-c carries 3, so 9; a-b carries 1 each: 1 + 1 and 2 * (1 + 0.15 * (1/2)^4)."""
    env = CongestionGames(1, {"network": ROADS, "demands": TRIPS})
    assert [(kind.name, kind.agents) for kind in env.kinds] == [
        ("driver_with_1_paths", ("driver_0",)),
        ("driver_with_2_paths", ("driver_1", "driver_2")),
    ]
    frame = started(env)
    assert [column[0].tolist() for column in frame.obs] == [[[1, 0]], [[0, 1], [0, 1]]]
    frame = env.step([np.array([[0]]), np.array([[0, 1]])])
    assert frame.rewards[0] == pytest.approx([-9, -11, -(9 + 2 + 0.3 / 16)])
    assert env.game.path_names == ("b > c", "a > b (edge 0) > c", "a > b (edge 1) > c")


def test_lanes_do_not_know_each_other() -> None:
    rng = np.random.default_rng(0)
    config = {"network": ROADS, "demands": TRIPS, "repetitions": 3, "observe": "last"}
    many = CongestionGames(6, config)
    started(many)
    single = [CongestionGames(1, config) for _ in range(6)]
    for env in single:
        started(env)
    for _ in range(3):
        actions = [np.zeros((6, 1), np.int64), rng.integers(2, size=(6, 2))]
        frame = many.step(actions)
        for env_id, env in enumerate(single):
            alone = env.step([column[env_id : env_id + 1] for column in actions])
            np.testing.assert_array_equal(frame.rewards[env_id], alone.rewards[0])
            np.testing.assert_array_equal(frame.state[env_id], alone.state[0])
    assert frame.over.all()


def test_rewards_are_those_of_a_loop_over_drivers_and_roads() -> None:
    rng, env = np.random.default_rng(1), CongestionGames(5, {"demands": [{"from": "s", "to": "t", "agents": 7}]})
    game, chosen = env.game, rng.integers(3, size=(5, 7))
    started(env)
    rewards = env.step([chosen]).rewards
    for env_id in range(5):
        users = [sum(edge in game.trips[0].paths[path] for path in chosen[env_id]) for edge in range(5)]
        for driver, path in enumerate(chosen[env_id]):
            time = sum({0: users[0] / 7, 1: 1, 2: 1, 3: users[3] / 7, 4: 0}[edge] for edge in game.trips[0].paths[path])
            assert rewards[env_id, driver] == pytest.approx(-time)


def test_drivers_see_the_loads_of_the_round_before_as_shares() -> None:
    env = CongestionGames(1, {"repetitions": 2, "observe": "last"})
    assert started(env).obs[0][0, 0].tolist() == [1, 0, 0, 0, 0, 0]
    frame = env.step([np.array([[0, 1, 2, 2]])])
    assert frame.obs[0][0, 3].tolist() == [1, 0.75, 0.25, 0.25, 0.75, 0.5]  # own trip, then the five edges
    assert frame.state[0].tolist() == [0.75, 0.25, 0.25, 0.75, 0.5]
    assert not frame.over[0]
    assert env.step([np.array([[0, 1, 2, 2]])]).over[0]
    assert started(env).state.sum() == 0


def test_one_network_in_four_ways_of_writing_it_is_one_game() -> None:
    graph = nx.MultiDiGraph()
    graph.add_edge("a", "b", delay=[1, 1], colour="red")  # graphs may carry what is not ours
    graph.add_edge("a", "b", free_flow_time=2, capacity=2)
    graph.add_edge("b", "c", delay=[0, 0, 1])
    link = nx.node_link_data(graph, edges="links")
    games = [congestion_of({"network": form, "demands": TRIPS}) for form in (ROADS, graph, link)]
    games.append(congestion_of({"network": nx.node_link_data(graph, edges="edges"), "demands": TRIPS}))
    loads = np.array([0.5, 1.0, 2.0])
    for game in games:
        assert game.path_names == games[0].path_names
        np.testing.assert_allclose(game.path_delays(loads), games[0].path_delays(loads))


def test_an_undirected_road_has_two_lanes_with_loads_of_their_own() -> None:
    graph = nx.Graph()
    graph.add_edge(1, 2, delay=[0, 1])
    trips = [{"from": 1, "to": 2, "agents": 1}, {"from": 2, "to": 1, "agents": 3}]
    env = CongestionGames(1, {"network": graph, "demands": trips})
    started(env)
    assert env.step([np.zeros((1, 4), np.int64)]).rewards[0].tolist() == [-1, -3, -3, -3]


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"network": "brass"}, "Did you mean 'braess'"),
        ({"network": 3}, "Expected a list of edges"),
        ({"network": []}, "no edges"),
        ({"network": [{"from": "a"}]}, r"network\[0\].*Expected an edge"),
        ({"network": [{"from": "a", "to": "b", "delay": -1}]}, "greater than or equal to 0"),
        ({"network": [{"from": "a", "to": "b", "delay": [1, -1]}]}, "greater than or equal to 0"),
        ({"network": [{"from": "a", "to": "b", "delay": []}]}, "no coefficients"),
        ({"network": [{"from": "a", "to": "b", "delay": float("inf")}]}, "expected a finite number"),
        ({"network": [{"from": "a", "to": "b", "delai": 1}]}, "unknown key 'delai'. Did you mean 'delay'"),
        ({"network": [{"from": "a", "to": "b"}]}, "has the keys none"),
        ({"network": [{"from": "a", "to": "b", "delay": 1, "capacity": 2}]}, "capacity, delay"),
        ({"network": [{"from": "a", "to": "b", "capacity": 2}]}, "free_flow_time and capacity"),
        ({"network": [{"from": "a", "to": "b", "free_flow_time": 1, "capacity": 0}]}, "greater than 0"),
        ({"network": ROADS}, "demands are missing"),
        ({"network": {"nodes": [{"id": "a"}], "links": [{"source": "a", "target": "b"}]}}, "names the node 'b'"),
        ({"network": {"nodes": [{"id": 1}, {"id": "1"}], "links": [{"source": 1, "target": 1}]}}, "two nodes"),
        ({"network": {"edges": []}}, "node-link JSON"),
        ({"network": {"nodes": [{}], "links": []}}, "needs an `id`"),
        ({"demands": [{"from": "s", "to": "u", "agents": 1}]}, r"demands\[0\] names the node 'u'.*Nodes: s, a, b, t"),
        ({"demands": [{"from": "t", "to": "s", "agents": 1}]}, "there is no path"),
        ({"demands": [{"from": "s", "to": "s", "agents": 1}]}, "nowhere to go"),
        ({"demands": [{"from": "s", "to": "t", "agents": 0}]}, "demands.0.agents = 0"),
        ({"demands": [{"from": "s", "to": "t"}]}, "'demands.0.agents' is missing"),
        ({"demands": [{"from": "s", "to": "t", "agents": 1}] * 2}, "stands there twice"),
        ({"max_paths": 2}, "more than max_paths = 2 simple paths"),
        (
            {"observe": "last"},
            r"observe: last needs repetitions above 1, but repetitions is 1 .*the round before.*Set repetitions",
        ),
        ({"flow_per_agent": 0}, "greater than 0"),
        ({"repetition": 2}, "Did you mean 'repetitions'"),
    ],
)
def test_a_bad_network_is_refused_with_a_clear_message(keys: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        CongestionGames(1, keys)
    with pytest.raises(ConfigError, match=text):
        marl.make_env("congestion", keys)


# -- graphical games -------------------------------------------------------------------------------------------------


def test_a_node_earns_the_sum_over_its_neighbours() -> None:
    """A path a - b - c of stag hunts: the hunter in the middle meets a stag (4) and a hare (1)."""
    env = GraphicalGames(1, {"graph": [["a", "b"], ["b", "c"]]})
    started(env)
    assert env.step([np.array([[0, 0, 1]])]).rewards[0].tolist() == [4, 5, 3]
    assert env.kinds[0].agents == ("node_a", "node_b", "node_c")


def test_each_end_of_an_edge_reads_its_own_table() -> None:
    wide = [[[1, 2, 3], [4, 5, 6]], [[10, 20, 30], [40, 50, 60]]]
    edges = [{"from": "a", "to": "b", "game": wide}, {"from": "c", "to": "a", "game": "matching_pennies"}]
    env = GraphicalGames(1, {"graph": edges})
    started(env)
    assert [(kind.name, kind.agents) for kind in env.kinds] == [
        ("node_with_2_actions", ("node_a", "node_c")),
        ("node_with_3_actions", ("node_b",)),
    ]
    frame = env.step([np.array([[1, 0]]), np.array([[2]])])  # a: 1, c: 0, b: 2
    assert frame.rewards[0].tolist() == [6 + 1, -1, 60]  # c matches heads with a's tails and loses


def test_rewards_are_those_of_a_loop_over_edges() -> None:
    rng, graph = np.random.default_rng(0), nx.erdos_renyi_graph(12, 0.4, seed=1)
    for u, v in graph.edges:
        graph.edges[u, v]["game"] = rng.random((2, 3, 3)).tolist()
    env, actions = GraphicalGames(4, {"graph": graph}), rng.integers(3, size=(4, 12))
    started(env)
    expected = np.zeros((4, 12))
    for env_id in range(4):
        for u, v, keys in graph.edges(data=True):
            first, second = keys["game"]
            expected[env_id, u] += first[actions[env_id, u]][actions[env_id, v]]
            expected[env_id, v] += second[actions[env_id, u]][actions[env_id, v]]
    np.testing.assert_allclose(env.step([actions]).rewards, expected, rtol=1e-5)


def test_nodes_see_what_their_neighbours_did_and_nothing_of_others() -> None:
    config = {"graph": [["a", "b"], ["b", "c"]], "repetitions": 3, "observe": "last"}
    env = GraphicalGames(1, config)
    assert not started(env).obs[0].any()
    frame = env.step([np.array([[0, 1, 1]])])
    assert frame.obs[0][0].tolist() == [[0, 1, 0, 0], [1, 0, 0, 1], [0, 1, 0, 0]]  # b; a and c; b
    assert frame.state[0].tolist() == [1, 0, 0, 1, 0, 1]
    told = GraphicalGames(1, config | {"observe_node": True})
    assert started(told).obs[0][0].tolist() == [[1, 0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0]]


@pytest.mark.parametrize("name", GENERATORS)
def test_every_generator_makes_a_game_and_the_same_one_again(name: str) -> None:
    sizes = {"n": 6, "m": 2, "d": 3, "k": 4, "p": 0.9, "n1": 2, "n2": 3, "seed": 4}
    graph = {"generator": name} | {key: sizes[key] for key in GENERATORS[name].needs}
    first, second = graphical_of({"graph": graph}), graphical_of({"graph": graph})
    assert len(first.nodes) >= 5
    np.testing.assert_array_equal(first.other, second.other)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"graph": {"generator": "circle_graph", "n": 3}}, "Did you mean 'cycle_graph'"),
        ({"graph": {"generator": "cycle_graph"}}, "missing: n"),
        ({"graph": {"generator": "cycle_graph", "n": 4, "m": 2}}, "unknown: m"),
        ({"graph": {"generator": "cycle_graph", "n": -4}}, "whole number of 1 or more"),
        ({"graph": {"generator": "complete_graph", "n": 10**9}}, "at most 1000"),
        ({"graph": {"generator": "grid_2d_graph", "n": 100, "m": 100}}, "about 10000 nodes"),
        ({"graph": {"generator": "erdos_renyi_graph", "n": 5, "p": 0.5}}, "missing: seed"),
        ({"graph": {"generator": "random_regular_graph", "n": 5, "d": 3, "seed": 0}}, "cannot be built"),
        ({"graph": {"generator": "erdos_renyi_graph", "n": 5, "p": 0.0, "seed": 0}}, "no edges"),
        ({"graph": {"generator": "erdos_renyi_graph", "n": 5, "p": "x", "seed": 0}}, "cannot be built"),
        ({"graph": [["a", "a"]]}, "edge to itself"),
        ({"graph": [["a", "b"], ["b", "a"]]}, "stands there twice"),
        ({"graph": [{"from": "a", "to": "b", "gam": "chicken"}]}, "unknown key 'gam'"),
        ({"graph": {"nodes": [{"id": i} for i in "abc"], "links": [{"source": "a", "target": "b"}]}}, "no neighbour"),
        ({"game": [[1, 2, 3], [4, 5, 6]]}, "square table"),
        ({"game": [[1, 2], [3]]}, "ragged"),
        ({"game": [[1, float("nan")], [3, 4]]}, "not finite"),
        ({"game": 7}, "name of a classic"),
        ({"graph": [["a", "b"], {"from": "b", "to": "c", "game": "climbing"}]}, "2 actions in one game and 3"),
        (
            {"observe": "last"},
            r"observe: last needs repetitions above 1, but repetitions is 1 .*the round before.*Set repetitions",
        ),
        ({"graf": 1}, "Did you mean 'graph'"),
    ],
)
def test_a_bad_graphical_game_is_refused_with_a_clear_message(keys: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        GraphicalGames(1, keys)


def test_an_unknown_classic_is_named() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'stag_hunt'"):
        GraphicalGames(1, {"game": "stag_hunts"})


# -- both ------------------------------------------------------------------------------------------------------------

LAST = {"repetitions": 4, "observe": "last"}


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("congestion", {}),
        ("congestion", {"network": ROADS, "demands": TRIPS, **LAST}),
        ("graphical_game", {}),
        ("graphical_game", {"graph": {"generator": "star_graph", "n": 3}, "observe_node": True, **LAST}),
    ],
)
def test_the_checker_finds_nothing(name: str, config: dict[str, Any]) -> None:
    assert marl.check_env(name, config) == []


def test_drawings_in_words_tell_loads_and_payoffs() -> None:
    roads, nodes = CongestionGames(1, {}), GraphicalGames(1, {})
    for env, text in ((roads, "path s > a > b > t: 0 agents"), (nodes, "round 0 of 1")):
        started(env)
        assert text in env.render(0)
    roads.step([np.array([[2, 2, 2, 0]])])
    nodes.step([np.array([[0, 0, 0, 1]])])
    assert "edge s > a: load 1, delay 1" in roads.render(0)
    assert "path s > a > b > t: 3 agents" in roads.render(0)
    assert "node 3: action 1, payoff 6" in nodes.render(0)


def test_selfish_drivers_learn_the_paradox_in_full_traffic() -> None:
    """Ten drivers: 20 in all in equilibrium, 15 at best; random paths take 16, so they learn to be slower than that."""
    scenario = load_scenario(SCENARIO, ["env_config.flow_per_agent=0.1"])
    with Trainer(scenario=scenario) as trainer:
        for _ in range(6):
            result = trainer.train()
    assert result["episode_reward_mean"] < -18.0  # while they still explore
    assert congestion_nash_conv(congestion_of(scenario.env_config), [0, 0, 10]) == 0.0
