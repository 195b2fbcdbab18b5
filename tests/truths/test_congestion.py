"""Routing games of the literature: prices of anarchy, flows and equilibria that are known exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.gametheory.networks import (
    atomic_prices,
    congestion_equilibrium,
    congestion_of,
    equilibrium_flow,
    optimal_flow,
    price_of_anarchy,
)


@pytest.mark.parametrize("network", ["pigou", "braess"])
def test_pigou_and_braess_have_price_of_anarchy_four_thirds(network: str) -> None:
    found = price_of_anarchy(congestion_of({"network": network}))
    assert found.price == pytest.approx(4 / 3, abs=1e-6)
    assert max(found.equilibrium.relative_gap, found.optimum.relative_gap) < 1e-9


def test_everybody_takes_the_crowded_road_in_pigous_network_but_half_should() -> None:
    game = congestion_of({"network": "pigou"})
    assert equilibrium_flow(game).edge_flows == pytest.approx([0.0, 1.0], abs=1e-9)
    assert optimal_flow(game).edge_flows == pytest.approx([0.5, 0.5], abs=1e-9)
    assert optimal_flow(game).total_cost == pytest.approx(0.75, abs=1e-9)


def test_closing_braess_link_makes_everybody_faster() -> None:
    with_link = equilibrium_flow(congestion_of({"network": "braess"}))
    without = equilibrium_flow(congestion_of({"network": "braess_without_link"}))
    assert with_link.total_cost == pytest.approx(2.0, abs=1e-6)
    assert without.total_cost == pytest.approx(1.5, abs=1e-6)
    assert price_of_anarchy(congestion_of({"network": "braess_without_link"})).price == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 8])
def test_pigou_with_a_steeper_road_has_roughgardens_price(degree: int) -> None:
    """Delays 1 and x^d: price 1 / (1 - d * (d + 1)^(-(d + 1) / d)) (Roughgarden, 2003)."""
    steep = [{"from": "s", "to": "t", "delay": 1}, {"from": "s", "to": "t", "delay": [0] * degree + [1]}]
    game = congestion_of({"network": steep, "demands": [{"from": "s", "to": "t", "agents": 1}]})
    price = 1 / (1 - degree * (degree + 1) ** (-(degree + 1) / degree))
    assert price_of_anarchy(game).price == pytest.approx(price, abs=1e-6)


def test_four_drivers_on_braess_network_pay_between_13_twelfths_and_four_thirds_of_the_optimum() -> None:
    """By hand: at best 2 + 2 beside the link, 6 in all; at rest with 2 on the link (6.5) or with all 4 on it (8)."""
    prices = atomic_prices(congestion_of({"network": "braess"}))
    assert prices.price_of_anarchy == pytest.approx(4 / 3)
    assert prices.price_of_stability == pytest.approx(13 / 12)
    assert prices.optimum.path_counts.tolist() == [2, 2, 0]
    assert prices.best.path_counts.tolist() == [1, 1, 2]
    assert prices.worst.path_counts.tolist() == [0, 0, 4]
    assert (prices.best.nash_conv, prices.worst.nash_conv) == pytest.approx((0.0, 0.0))


def test_the_textbook_braess_of_4000_drivers_takes_80_minutes_with_and_65_without_the_link() -> None:
    def minutes(link: list[dict[str, Any]]) -> float:
        roads = [
            {"from": "start", "to": "a", "delay": [0, 0.01]},
            {"from": "start", "to": "b", "delay": [45]},
            {"from": "a", "to": "end", "delay": [45]},
            {"from": "b", "to": "end", "delay": [0, 0.01]},
        ]
        trips = [{"from": "start", "to": "end", "agents": 4000}]
        return equilibrium_flow(congestion_of({"network": [*roads, *link], "demands": trips})).total_cost / 4000

    assert minutes([]) == pytest.approx(65.0, abs=1e-6)
    assert minutes([{"from": "a", "to": "b", "delay": [0]}]) == pytest.approx(80.0, abs=1e-6)


def test_affine_delays_never_cost_more_than_four_thirds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        nodes = list("sabct")
        roads = [
            {"from": u, "to": v, "delay": rng.random(2).tolist()}
            for i, u in enumerate(nodes)
            for v in nodes[i + 1 :]
            if rng.random() < 0.7 or (u, v) == ("s", "t")
        ]
        game = congestion_of({"network": roads, "demands": [{"from": "s", "to": "t", "agents": 3}]})
        found = price_of_anarchy(game)
        assert 1 - 1e-9 <= found.price <= 4 / 3 + 1e-9
        assert max(found.equilibrium.relative_gap, found.optimum.relative_gap) <= 1e-9
        assert congestion_equilibrium(game).nash_conv == pytest.approx(0.0, abs=1e-9)
