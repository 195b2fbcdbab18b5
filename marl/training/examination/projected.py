"""From below, for policies with a memory: perfect replies to their projection on views, played against them as they are.

The projection (``gametheory/merged/projection.py``) is what a policy does on average where it sees the same; the reply to it
is exact, and needs no training. Whatever it earns more against the real policies is a lower bound with its standard error.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from marl.errors import ConfigError
from marl.gametheory.merged.game import MergedGame
from marl.gametheory.merged.projection import Player, project
from marl.policies.config import PolicySpec, ScriptedConfig
from marl.policies.tabular import TabularPolicy
from marl.populations.exploit_config import ExploitabilityConfig
from marl.populations.members import Member
from marl.training.examination.figures import Effort, Exploitability
from marl.training.examination.game import Asked, ExaminedGame
from marl.training.examination.method import Method
from marl.training.examination.positions import make_env, positions_for


class ByProjection(Method):
    """Also of policies that cannot tell their probabilities: then it counts what they do."""

    name: ClassVar[str] = "projected"
    told: ClassVar[str] = "best responses are computed to what policies with a memory do on average"

    def __init__(self, game: ExaminedGame, config: ExploitabilityConfig) -> None:
        self.game, self.config = game, config
        for player, agents in game.players.items():
            if len(agents) > 1 or "*" in agents[0]:
                raise ConfigError(f"player {player!r} is a group of agents, and replies are tables of single agents.")
        self.merged = MergedGame(positions_for(game.env, game.setup.scenario.env_config, config))
        even = [views.legal / views.legal.sum(axis=1, keepdims=True) for views in self.merged.positions.views]
        cost = self.merged.cost(even)
        self.effort = Effort(
            positions=cost.positions,
            information_sets=cost.information_sets,
            episodes=config.projection_episodes + config.best_response_episodes * (1 + len(game.players)),
            seconds=round(cost.seconds, 6),
        )
        if cost.seconds > config.max_seconds:
            raise ConfigError(f"a perfect reply takes {self.effort}, more than max_seconds ({config.max_seconds:g}).")

    def measure(self, asked: Asked) -> Exploitability:
        game, positions = self.game, self.merged.positions
        players = {}
        for seat, policy in game.by_seat(asked.policies).items():
            spec = game.setup.policies[game.seating[seat]]
            # As in matches: policies whose strategy is a distribution draw from it, others play their best guess.
            players[seat] = Player(policy, Member(seat, spec).draws_actions)
        seed = game.match_seeds(asked.number, 2)[1]
        projection = project(
            positions,
            partial(make_env, game.env, game.setup.scenario.env_config),
            players,
            self.config.projection_episodes,
            seed,
        )
        replies = {}
        for number, name in enumerate(game.seats):
            reply = self.merged.best_response(projection.tables, number)[1]
            player = game.owner(name)
            replies[player] = as_member(f"reply of {player}", reply, self._kind(number))
        return game.play_replies(asked, replies, self.config.best_response_episodes)

    def _kind(self, seat: int) -> int:
        kinds = self.game.setup.task.kinds
        return next(number for number, kind in enumerate(kinds) if kind.seats.start <= seat < kind.seats.stop)


def as_member(name: str, policy: TabularPolicy, kind: int) -> Member:
    """A table that can be seated in matches."""
    spec = PolicySpec("scripted", kind, scripted=ScriptedConfig(name=TabularPolicy))
    return Member(name, spec, policy.get_weights())
