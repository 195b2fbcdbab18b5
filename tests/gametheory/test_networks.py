"""Theory of games on networks, against slow loops over all plays and against the tables of matrix games."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import minimize

from marl.envs.games.networks.congestion import CongestionGames
from marl.errors import ConfigError
from marl.gametheory.networks import (
    CongestionGame,
    GraphicalGame,
    atomic_prices,
    congestion_equilibrium,
    congestion_nash_conv,
    congestion_of,
    draw_network,
    equilibrium_flow,
    graphical_best_responses,
    graphical_nash_conv,
    graphical_of,
    graphical_potential,
    optimal_flow,
    price_of_anarchy,
    pure_equilibria,
    rosenthal_potential,
    social_optimum,
    to_matrix_game,
)
from marl.gametheory.networks.flow import cost_ratio

TOWN: dict[str, Any] = {
    "network": [
        {"from": "a", "to": "b", "delay": [1, 0.5]},
        {"from": "a", "to": "c", "delay": [2, 0, 0.3]},
        {"from": "b", "to": "c", "delay": [0.1]},
        {"from": "b", "to": "d", "free_flow_time": 2, "capacity": 2},
        {"from": "c", "to": "d", "free_flow_time": 1, "capacity": 1.5, "bpr_factor": 0.5, "bpr_power": 2.5},
    ],
    "demands": [{"from": "a", "to": "d", "agents": 3}, {"from": "b", "to": "d", "agents": 2}],
    "flow_per_agent": 0.7,
}


@pytest.fixture
def town() -> CongestionGame:
    return congestion_of(TOWN)


def delays_of(choices: tuple[int, ...]) -> list[float]:
    """What each driver of the town spends, as the env pays it; choices are paths of the own trip."""
    env = CongestionGames(1, TOWN)
    env.reset(np.arange(1), np.arange(1))
    actions = [np.array([[choices[int(agent.split("_")[1])] for agent in kind.agents]]) for kind in env.kinds]
    paid = dict(zip(env.seat_names, env.step(actions).rewards[0], strict=True))
    return [-float(paid[f"driver_{i}"]) for i in range(5)]


def counts_of(choices: tuple[int, ...]) -> list[int]:
    first = [choices[:3].count(path) for path in range(3)]
    return first + [choices[3:].count(path) for path in range(2)]


def plays() -> list[tuple[int, ...]]:
    return list(product(range(3), range(3), range(3), range(2), range(2)))


# -- routing ---------------------------------------------------------------------------------------------------------


def test_a_bpr_edge_takes_its_free_flow_time_when_empty_and_15_percent_more_at_capacity(town: CongestionGame) -> None:
    assert town.edge_delays(np.zeros(5)) == pytest.approx([1, 2, 0.1, 2, 1])
    assert town.edge_delays(np.full(5, 2.0))[3] == pytest.approx(2 * 1.15)
    assert town.edge_delays(np.full(5, 3.0))[4] == pytest.approx(1 + 0.5 * 2**2.5)


def test_nash_conv_by_counts_is_what_drivers_of_the_env_can_save(town: CongestionGame) -> None:
    for play in plays()[::7]:
        saved = 0.0
        for driver, own in enumerate(play):
            options = 3 if driver < 3 else 2
            tries = [delays_of((*play[:driver], other, *play[driver + 1 :]))[driver] for other in range(options)]
            saved += tries[own] - min(tries)
        assert congestion_nash_conv(town, counts_of(play)) == pytest.approx(saved, abs=1e-5)


def test_nash_conv_of_mixed_strategies_is_the_mean_over_all_plays(town: CongestionGame) -> None:
    rng = np.random.default_rng(1)
    mixed = [rng.dirichlet(np.ones(3)) for _ in range(3)] + [rng.dirichlet(np.ones(2)) for _ in range(2)]
    spent = [np.zeros(3)] * 3 + [np.zeros(2)] * 2
    spent = [row.copy() for row in spent]
    for play in plays():
        delays = delays_of(play)
        for driver, own in enumerate(play):
            others = np.prod([mixed[j][a] for j, a in enumerate(play) if j != driver])
            spent[driver][own] += others * delays[driver]
    expected = sum(x @ row - row.min() for x, row in zip(mixed, spent, strict=True))
    assert congestion_nash_conv(town, mixed) == pytest.approx(expected, abs=1e-5)


def test_pure_strategies_have_the_nash_conv_of_their_counts(town: CongestionGame) -> None:
    play = (0, 2, 2, 1, 0)
    mixed = [np.eye(3)[a] for a in play[:3]] + [np.eye(2)[a] for a in play[3:]]
    assert congestion_nash_conv(town, mixed) == pytest.approx(congestion_nash_conv(town, counts_of(play)))


def test_the_potential_changes_by_what_the_mover_gains(town: CongestionGame) -> None:
    for play in plays()[::5]:
        for driver in range(5):
            other = (*play[:driver], (play[driver] + 1) % (3 if driver < 3 else 2), *play[driver + 1 :])
            change = rosenthal_potential(town, counts_of(other)) - rosenthal_potential(town, counts_of(play))
            assert change == pytest.approx(delays_of(other)[driver] - delays_of(play)[driver], abs=1e-5)


def test_optimum_and_prices_are_those_of_a_loop_over_all_plays(town: CongestionGame) -> None:
    totals = {play: sum(delays_of(play)) for play in plays()}
    rest = [totals[play] for play in plays() if congestion_nash_conv(town, counts_of(play)) < 1e-9]
    prices = atomic_prices(town)
    assert social_optimum(town).total_delay == pytest.approx(min(totals.values()), abs=1e-5)
    assert prices.best.total_delay == pytest.approx(min(rest), abs=1e-5)
    assert prices.worst.total_delay == pytest.approx(max(rest), abs=1e-5)
    assert prices.price_of_anarchy == pytest.approx(max(rest) / min(totals.values()), abs=1e-5)


@pytest.mark.parametrize("start", [[3, 0, 0, 2, 0], [0, 3, 0, 0, 2], [1, 1, 1, 1, 1]])
def test_best_responses_end_in_a_pure_equilibrium_from_everywhere(town: CongestionGame, start: list[int]) -> None:
    found = congestion_equilibrium(town, start)
    assert found.nash_conv == pytest.approx(0.0, abs=1e-9)
    assert found.path_counts[:3].sum() == 3
    assert rosenthal_potential(town, found.path_counts) <= rosenthal_potential(town, start) + 1e-9


def test_used_paths_of_an_equilibrium_flow_take_equally_long_and_no_path_is_shorter(town: CongestionGame) -> None:
    flow = equilibrium_flow(town)
    delays = town.path_delays(flow.edge_flows)
    for where, demand in zip(town.path_slices, town.demands, strict=True):
        used = flow.path_flows[where] > 1e-7
        assert flow.path_flows[where].sum() == pytest.approx(demand)
        assert delays[where][used] == pytest.approx(delays[where].min(), rel=1e-8)


def test_the_optimal_flow_is_that_of_a_general_solver(town: CongestionGame) -> None:
    def cost(flows: np.ndarray) -> float:
        loads = town.loads(np.maximum(flows, 0))
        return float(loads @ town.edge_delays(loads))

    sums = [
        {"type": "eq", "fun": lambda h, w=where, d=demand: h[w].sum() - d}
        for where, demand in zip(town.path_slices, town.demands, strict=True)
    ]
    start = np.concatenate([np.full(3, 0.7), np.full(2, 0.7)])
    other = minimize(cost, start, method="SLSQP", bounds=[(0, None)] * 5, constraints=sums, options={"ftol": 1e-12})
    assert optimal_flow(town).total_cost == pytest.approx(other.fun, rel=1e-7)
    assert price_of_anarchy(town).price >= 1


def test_flow_of_many_small_drivers_is_the_limit_of_atomic_equilibria() -> None:
    trip = {"from": "s", "to": "t", "agents": 200}
    atomic = congestion_equilibrium(congestion_of({"network": "braess", "demands": [trip]}))
    assert atomic.total_delay / 200 == pytest.approx(2.0, abs=0.02)


def test_a_gap_is_reported_where_the_solver_had_no_time(town: CongestionGame) -> None:
    assert equilibrium_flow(town, max_rounds=0).relative_gap > 1e-3


def test_enumeration_of_too_many_plays_is_refused() -> None:
    game = congestion_of({"network": "braess", "demands": [{"from": "s", "to": "t", "agents": 100}]})
    with pytest.raises(ConfigError, match=r"5151 plays.*max_plays = 1000"):
        atomic_prices(game, max_plays=1000)


@pytest.mark.parametrize("play", [[1, 1, 1], [5, 0, -1], [1.5, 1.5, 1], [4, 0], [[0.5, 0.5]] * 4, [[1, 1, -1]] * 4])
def test_what_is_no_play_is_refused(play: Any) -> None:
    with pytest.raises(ConfigError, match=r"do not fit|not a distribution"):
        congestion_nash_conv(congestion_of({"network": "braess"}), play)


@pytest.mark.parametrize("network", ["pigou", "braess"])
def test_the_picture_is_written(network: str, tmp_path: Path) -> None:
    game = congestion_of({"network": network})
    file = draw_network(game, equilibrium_flow(game).edge_flows, tmp_path / "flow.png", "equilibrium")
    assert file.read_bytes()[:4] == b"\x89PNG"
    other = draw_network(game, optimal_flow(game).edge_flows, tmp_path / "optimum.png", "equilibrium")
    assert other.read_bytes() != file.read_bytes()
    with pytest.raises(ConfigError, match="one flow for each of"):
        draw_network(game, np.zeros(9), tmp_path / "bad.png")


# -- graphical games -------------------------------------------------------------------------------------------------


def random_graphical(seed: int) -> GraphicalGame:
    """Four nodes with 2, 3, 2 and 2 actions and a table of its own on each of five edges."""
    rng = np.random.default_rng(seed)
    actions = {"a": 2, "b": 3, "c": 2, "d": 2}
    edges = [("a", "b"), ("b", "c"), ("d", "c"), ("d", "a"), ("c", "a")]
    return graphical_of(
        {"graph": [{"from": u, "to": v, "game": rng.random((2, actions[u], actions[v])).tolist()} for u, v in edges]}
    )


@pytest.mark.parametrize("seed", range(5))
def test_nash_conv_from_the_edges_is_that_of_the_whole_table(seed: int) -> None:
    game, rng = random_graphical(seed), np.random.default_rng(seed)
    table = to_matrix_game(game)
    profile = tuple(rng.dirichlet(np.ones(count)) for count in table.shape)
    assert table.shape == (2, 3, 2, 2)
    assert graphical_nash_conv(game, profile) == pytest.approx(table.nash_conv(profile), abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_the_search_finds_the_pure_equilibria_of_the_whole_table(seed: int) -> None:
    game = random_graphical(seed)
    table = to_matrix_game(game)
    expected = [play for play in np.ndindex(table.shape) if table.nash_conv(table.pure(play)) < 1e-9]
    assert list(pure_equilibria(game)) == expected


def test_matching_pennies_on_one_edge_has_no_pure_equilibrium_and_never_settles() -> None:
    game = graphical_of({"graph": [["a", "b"]], "game": "matching_pennies"})
    assert pure_equilibria(game) == ()
    assert graphical_potential(game) is None
    answer = graphical_best_responses(game, max_rounds=20)
    assert (answer.settled, answer.nash_conv) == (False, 2.0)
    assert graphical_nash_conv(game, [[0.5, 0.5], [0.5, 0.5]]) == pytest.approx(0.0)


def test_neighbours_on_a_cycle_settle_on_one_convention() -> None:
    """Coordination [[2, 0], [0, 1]] on a cycle of 5: action 1 stays only where both neighbours play it."""
    game = graphical_of({"graph": {"generator": "cycle_graph", "n": 5}, "game": [[2, 0], [0, 1]]})
    assert pure_equilibria(game) == ((0, 0, 0, 0, 0), (1, 1, 1, 1, 1))
    answer = graphical_best_responses(game, start=[1, 1, 0, 1, 1])
    assert answer.actions.tolist() == [0, 0, 0, 0, 0]
    assert (answer.settled, answer.nash_conv) == (True, 0.0)


def test_the_potential_of_a_coordination_game_changes_by_what_the_mover_gains() -> None:
    game = graphical_of({"graph": {"generator": "wheel_graph", "n": 5}, "game": "stag_hunt"})
    phi = graphical_potential(game)
    assert phi is not None

    def potential(play: np.ndarray) -> float:
        return float(phi[np.arange(len(game.me)), play[game.me], play[game.other]].sum() / 2)

    for play in product(range(2), repeat=5):
        for node in range(5):
            other = np.array(play)
            other[node] = 1 - other[node]
            gain = game.payoffs(other)[node] - game.payoffs(np.array(play))[node]
            assert potential(other) - potential(np.array(play)) == pytest.approx(gain)


def test_two_hundred_nodes_settle_and_are_judged_without_their_table() -> None:
    graph = nx.random_regular_graph(4, 200, seed=3)
    game = graphical_of({"graph": graph, "game": "stag_hunt"})
    answer = graphical_best_responses(game, start=np.random.default_rng(0).integers(2, size=200).tolist())
    assert answer.settled
    assert graphical_nash_conv(game, [np.eye(2)[action] for action in answer.actions]) == 0.0
    with pytest.raises(ConfigError, match="max_entries"):
        to_matrix_game(game)
    with pytest.raises(ConfigError, match="max_visits = 50"):
        pure_equilibria(game, max_visits=50)


@pytest.mark.parametrize("profile", [[[1, 0]], [[1, 0]] * 3 + [[1, 0, 0]], [[0.7, 0.7]] * 4])
def test_what_is_no_profile_is_refused(profile: Any) -> None:
    with pytest.raises(ConfigError, match=r"shapes|not a distribution"):
        graphical_nash_conv(graphical_of({}), profile)


def test_a_start_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="one action per node"):
        graphical_best_responses(graphical_of({}), start=[0, 0, 0, 2])


def test_a_ratio_of_costs_is_one_where_nothing_costs_anything() -> None:
    assert cost_ratio(3.0, 2.0) == 1.5
    assert cost_ratio(0.0, 2.0) == 0.0
    assert cost_ratio(0.0, 0.0) == 1.0
    assert cost_ratio(3.0, 0.0) == float("inf")


def test_a_strategy_with_a_negative_chance_is_refused() -> None:
    game = graphical_of({"graph": [["a", "b"]], "game": "matching_pennies"})
    with pytest.raises(ConfigError, match="is not a distribution"):
        graphical_nash_conv(game, [[1.5, -0.5], [0.5, 0.5]])
