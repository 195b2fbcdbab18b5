"""Theory of games on networks: equilibrium flows, price of anarchy, potentials, distance of play from equilibrium."""

from marl.envs.games.networks.neighbours import GraphicalGame, graphical_of
from marl.envs.games.networks.routing import CongestionGame, congestion_of
from marl.gametheory.networks.atomic import (
    AtomicPlay,
    AtomicPrices,
    atomic_prices,
    congestion_equilibrium,
    congestion_nash_conv,
    rosenthal_potential,
    social_optimum,
)
from marl.gametheory.networks.drawing import draw_network
from marl.gametheory.networks.flow import Flow, Price, equilibrium_flow, optimal_flow, price_of_anarchy
from marl.gametheory.networks.graphical import (
    PureAnswer,
    graphical_best_responses,
    graphical_nash_conv,
    graphical_potential,
    pure_equilibria,
    to_matrix_game,
)

__all__ = [
    "AtomicPlay", "AtomicPrices", "CongestionGame", "Flow", "GraphicalGame", "Price", "PureAnswer", "atomic_prices",
    "congestion_equilibrium", "congestion_nash_conv", "congestion_of", "draw_network", "equilibrium_flow",
    "graphical_best_responses", "graphical_nash_conv", "graphical_of", "graphical_potential", "optimal_flow",
    "price_of_anarchy", "pure_equilibria", "rosenthal_potential", "social_optimum", "to_matrix_game",
]  # fmt: skip
