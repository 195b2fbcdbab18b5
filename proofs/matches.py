"""Matches of a trained policy against a uniformly random opponent, on PettingZoo's own env.

Nothing of the training loop takes part: the game, the legal moves and the outcome are the env's own, so a mistake in
seats, rewards or masks of ours would show here. Every move of either side is held against the env's mask before it is sent.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from marl.config import Config
from marl.data.task import AgentID, PolicyID
from marl.errors import ConfigError
from marl.play.actor import act_once
from marl.training.trainer import Trainer

Choice: TypeAlias = Callable[[Any, AgentID], int]
"""From an observation (with its mask) and the agent that sees it to a move."""
Play: TypeAlias = Literal["greedy", "sampled"]
PLAYS: tuple[Play, ...] = ("greedy", "sampled")


class MatchGoal(Config):
    """What a policy has to achieve, playing greedily, in each seat of a two-player game."""

    policy: str = Field(description="The trained policy that plays.")
    games: PositiveInt = Field(1_000, description="Games in each seat, and for each way of playing.")
    lost_at_most: float | None = Field(None, ge=0, le=1, description="Largest share of lost games in each seat.")
    won_at_least: float | None = Field(None, ge=0, le=1, description="Smallest share of won games in each seat.")

    @model_validator(mode="after")
    def _wants_something(self) -> MatchGoal:
        if self.lost_at_most is None and self.won_at_least is None:
            raise ValueError("matches need lost_at_most or won_at_least")
        return self

    def __str__(self) -> str:
        parts = [] if self.lost_at_most is None else [f"at most {self.lost_at_most:.0%} lost"]
        parts += [] if self.won_at_least is None else [f"at least {self.won_at_least:.0%} won"]
        return f"{' and '.join(parts)} of {self.games:,} games in each seat"

    def met(self, tallies: Sequence[Tally]) -> bool:
        """Judged by greedy play; a single illegal move fails it, however it was played."""
        greedy = [tally for tally in tallies if tally.play == "greedy"]
        lost = all(self.lost_at_most is None or t.lost <= self.lost_at_most * t.games for t in greedy)
        won = all(self.won_at_least is None or t.won >= self.won_at_least * t.games for t in greedy)
        return bool(greedy) and lost and won and not any(t.illegal for t in tallies)


@dataclass
class Tally:
    """How the games of one seat ended. A game with an illegal move ends with it, as the env rules."""

    seat: AgentID
    play: Play
    won: int = 0
    drawn: int = 0
    lost: int = 0
    moves: int = 0  # of both sides
    illegal: int = 0

    @property
    def games(self) -> int:
        return self.won + self.drawn + self.lost


def play_matches(trainer: Trainer, goal: MatchGoal) -> list[Tally]:
    """The policy in each seat, greedily and as it samples while it learns; all draws follow from the run's seed."""
    env = make_env(str(trainer.scenario.env))
    tallies = []
    for place, seat in enumerate(env.possible_agents):
        for play in PLAYS:
            rng = np.random.default_rng([trainer.scenario.seed, place, PLAYS.index(play)])
            choose = _mover(trainer, goal.policy, explore=play == "sampled", rng=rng)
            tallies.append(play_games(env, seat, choose, goal.games, rng, play))
    env.close()
    return tallies


def _mover(trainer: Trainer, name: PolicyID, explore: bool, rng: np.random.Generator) -> Choice:
    policy, config = trainer.get_policy(name), trainer.setup.rollout.config
    return lambda obs, agent: int(act_once(policy, obs, agent, explore, rng, config)[0])


def make_env(name: str) -> Any:
    """The turn-based env behind ``pettingzoo:family/name_vN``, straight from PettingZoo."""
    package, _, path = name.partition(":")
    if package != "pettingzoo" or "/" not in path:
        raise ConfigError(f"matches need a turn-based env such as pettingzoo:classic/tictactoe_v3, got {name!r}.")
    return importlib.import_module(f"pettingzoo.{path.replace('/', '.')}").env()


def play_games(
    env: Any, seat: AgentID, choose: Choice, games: int, rng: np.random.Generator, play: Play = "greedy"
) -> Tally:
    """``choose`` moves for the seat, the other side draws uniformly from its legal moves."""
    tally = Tally(seat, play)
    for _ in range(games):
        env.reset()
        while not any(env.terminations.values()):
            agent = env.agent_selection
            obs = env.observe(agent)
            legal = np.flatnonzero(obs["action_mask"])
            move = choose(obs, agent) if agent == seat else int(rng.choice(legal))
            tally.moves += 1
            tally.illegal += int(move not in legal)
            env.step(move)
        reward = float(env.rewards[seat])
        tally.won += reward > 0
        tally.lost += reward < 0
        tally.drawn += reward == 0
    return tally
