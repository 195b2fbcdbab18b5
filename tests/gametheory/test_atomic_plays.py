"""Drivers on small random networks, against loops over every driver's every choice."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from marl.errors import ConfigError
from marl.gametheory.game import bimatrix
from marl.gametheory.networks import (
    atomic_prices,
    congestion_equilibrium,
    congestion_nash_conv,
    congestion_of,
    rosenthal_potential,
    social_optimum,
)

WEIGHT = 0.5
ROADS = [("a", "b"), ("a", "c"), ("b", "c"), ("b", "d"), ("d", "c")]
# Two drivers go from a to c, two from b to c; paths are the numbers of their roads.
PATHS = [[(0, 2), (0, 3, 4), (1,)], [(2,), (3, 4)]]


def network(delays: list[list[float]]) -> dict[str, Any]:
    edges = [{"from": start, "to": end, "delay": delay} for (start, end), delay in zip(ROADS, delays, strict=True)]
    demands = [{"from": "a", "to": "c", "agents": 2}, {"from": "b", "to": "c", "agents": 2}]
    return {"network": edges, "demands": demands, "flow_per_agent": WEIGHT}


class Slow:
    """All plays of four drivers, one by one."""

    def __init__(self, delays: list[list[float]], paths: list[list[tuple[int, ...]]]) -> None:
        self.delays, self.paths = delays, paths  # paths of each driver
        self.plays = list(product(*(range(len(own)) for own in paths)))

    def spent(self, play: tuple[int, ...]) -> list[float]:
        roads = [own[choice] for own, choice in zip(self.paths, play, strict=True)]
        load = [WEIGHT * sum(road in path for path in roads) for road in range(len(ROADS))]
        time = [sum(c * load[road] ** power for power, c in enumerate(self.delays[road])) for road in range(len(ROADS))]
        return [sum(time[road] for road in path) for path in roads]

    def could_save(self, play: tuple[int, ...]) -> float:
        total = 0.0
        for driver, own in enumerate(self.paths):
            others = [self.spent((*play[:driver], c, *play[driver + 1 :]))[driver] for c in range(len(own))]
            total += self.spent(play)[driver] - min(others)
        return total


def slow(game: Any, delays: list[list[float]]) -> Slow:
    """In the game's own order of paths."""
    paths = [tuple(np.flatnonzero(row).tolist()) for row in game.incidence]
    per_trip = [paths[where] for where in game.path_slices]
    assert [sorted(own) for own in per_trip] == PATHS
    return Slow(delays, [per_trip[0], per_trip[0], per_trip[1], per_trip[1]])


def counts(game: Any, play: tuple[int, ...]) -> list[int]:
    found = [0] * len(game.incidence)
    for driver, choice in enumerate(play):
        found[game.path_slices[driver // 2].start + choice] += 1
    return found


def random_delays(seed: int) -> list[list[float]]:
    rng = np.random.default_rng(seed)
    return [[float(rng.integers(0, 5)), float(rng.integers(0, 4)), float(rng.integers(0, 3))] for _ in ROADS]


SEEDS = range(40)


def test_optimum_best_and_worst_equilibrium_are_those_of_a_loop_over_all_plays() -> None:
    better = worse = 0  # games in which the best responses end neither in the best nor in the worst equilibrium
    for seed in SEEDS:
        delays = random_delays(seed)
        game = congestion_of(network(delays))
        by_hand = slow(game, delays)
        total = {play: sum(by_hand.spent(play)) for play in by_hand.plays}
        at_rest = [total[play] for play in by_hand.plays if by_hand.could_save(play) < 1e-9]
        prices, found = atomic_prices(game), congestion_equilibrium(game)
        least = min(total.values())
        assert prices.optimum.total_delay == social_optimum(game).total_delay == pytest.approx(least)
        assert prices.best.total_delay == pytest.approx(min(at_rest))
        assert prices.worst.total_delay == pytest.approx(max(at_rest))
        if least > 0:
            assert prices.price_of_stability == pytest.approx(min(at_rest) / least)
            assert prices.price_of_anarchy == pytest.approx(max(at_rest) / least)
        assert [play.nash_conv for play in (prices.best, prices.worst, found)] == pytest.approx([0, 0, 0], abs=1e-9)
        better += min(at_rest) < found.total_delay - 1e-6
        worse += max(at_rest) > found.total_delay + 1e-6
    assert better > 0
    assert worse > 0


@pytest.mark.parametrize("seed", [0, 1])
def test_what_drivers_could_save_and_the_potential_are_those_of_a_loop(seed: int) -> None:
    delays = random_delays(seed)
    game = congestion_of(network(delays))
    by_hand = slow(game, delays)
    for play in by_hand.plays:
        here = counts(game, play)
        assert congestion_nash_conv(game, here) == pytest.approx(by_hand.could_save(play), abs=1e-9)
        for driver in range(4):
            for other in range(len(by_hand.paths[driver])):
                moved = (*play[:driver], other, *play[driver + 1 :])
                change = rosenthal_potential(game, counts(game, moved)) - rosenthal_potential(game, here)
                assert change == pytest.approx(by_hand.spent(moved)[driver] - by_hand.spent(play)[driver], abs=1e-9)


@pytest.mark.parametrize("wrong", [[0.5, 0.4], [0.6, 0.5], [1.5, -0.5]])
def test_a_strategy_that_sums_to_less_or_more_than_one_is_refused(wrong: list[float]) -> None:
    game = bimatrix([[1, -1], [-1, 1]])
    with pytest.raises(ConfigError):
        game.profile([wrong, [0.5, 0.5]])
    assert [strategy.tolist() for strategy in game.profile([[0.5, 0.5], [1.0, 0.0]])] == [[0.5, 0.5], [1.0, 0.0]]
