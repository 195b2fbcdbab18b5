"""Exactly, on the game's tree: policies are read as tables, and best responses are computed (``gametheory/tree``)."""

from __future__ import annotations

from typing import ClassVar

from marl.envs.registry import EnvCreator
from marl.errors import ConfigError
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.policy_conversion import strategy_of
from marl.gametheory.tree.sampled import gains_with_errors
from marl.gametheory.tree.size import walks_in
from marl.populations.exploit_config import ExploitabilityConfig
from marl.training.examination.figures import EXACT, SAMPLED, Effort, Exploitability
from marl.training.examination.game import Asked, ExaminedGame
from marl.training.examination.method import Method

NODES_PER_SECOND = 2_000_000  # of a tree that stands: mostly the policies' forward passes


class ByTree(Method):
    """Where reset seeds had to stand for chance, with an error (``gametheory/tree/sampled.py``)."""

    name: ClassVar[str] = "tree"
    told: ClassVar[str] = "the game's tree is built"

    def __init__(self, game: ExaminedGame, config: ExploitabilityConfig) -> None:
        self.game = game
        scenario = game.setup.scenario
        for player, agents in game.players.items():
            if len(agents) > 1 or "*" in agents[0]:
                raise ConfigError(
                    f"player {player!r} is a group of agents, and the players of a tree are single agents."
                )
        env = game.env
        if config.method == "auto":
            self._check_size(env, config.max_nodes)
        self.tree = build_tree(
            env, scenario.env_config, chance_samples=config.chance_samples, max_nodes=config.max_nodes
        )
        nodes = len(self.tree)
        self.effort = Effort(
            nodes=nodes, information_sets=len(self.tree.sets), seconds=round(nodes / NODES_PER_SECOND, 3)
        )

    def _check_size(self, env: str | EnvCreator, max_nodes: int) -> None:
        """Whether the tree is worth growing: an env that is replayed takes minutes to reach ``max_nodes``."""
        scenario = self.game.setup.scenario
        walks = walks_in(env, scenario.env_config, scenario.seed)
        if not walks.discrete:
            raise ConfigError("some actions are not a choice among a few, so there is no finite tree.")
        if walks.nodes > max_nodes:
            raise ConfigError(
                f"the tree has {walks.size} nodes, estimated from random play, more than max_nodes ({max_nodes:,})."
            )

    def measure(self, asked: Asked) -> Exploitability:
        tree = self.tree
        table = strategy_of(tree, self.game.by_seat(asked.policies))
        found = gains_with_errors(tree, table)
        bound = EXACT if tree.sample is None else SAMPLED
        return Exploitability(
            nash_conv=found.nash_conv,
            stderr=found.total_error,
            gains=dict(zip(tree.players, found.gains.tolist(), strict=True)),
            errors=dict(zip(tree.players, found.errors.tolist(), strict=True)),
            bound=bound,
            chance=tree.chance_json(),
        )
