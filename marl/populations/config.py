"""Keys of ``population:``: how the opponents of a learner are chosen, and when it joins them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt, field_validator, model_validator

from marl.config import Config, Named
from marl.populations.kinds import POPULATIONS, PopulationKind, kinds_in_words
from marl.populations.meta_solvers import META_SOLVERS, SOLVER_KEYS
from marl.registry import Registry

Share = Annotated[float, Field(ge=0.0, le=1.0)]
SHARED_KEYS = (
    "kind", "oracle", "players", "symmetric", "round_timesteps", "restart", "matches", "self_share",
)  # fmt: skip
"""Keys of every kind; all others mean something to the kinds alone that name them."""


class PopulationConfig(Config):
    """Learners train against snapshots of each other."""

    kind: str = Field(description=kinds_in_words(), json_schema_extra=Named(lambda: POPULATIONS.names, kinds_in_words))
    meta_solver: str = Field(
        "nash",
        description="psro: the mixture to respond to; prioritised, league: the mixture that is the answer.",
        json_schema_extra=Named(lambda: META_SOLVERS.names),
    )
    alpha: NonNegativeFloat = Field(10.0, description="meta_solver alpha_rank: strength of selection.")
    oracle: str | None = Field(None, description="Algorithm of the learners; default: algo.name.")
    players: dict[str, list[str]] = Field(
        {},
        description="Player to its agents or patterns such as red_*. Default: each group of multiagent.groups is a player, "
        "and every other agent.",
    )
    symmetric: bool = Field(
        False,
        description="All players are drawn from one population: for games in which seats do not matter, or are seen in the "
        "observation. False: each player has its own.",
    )
    round_timesteps: PositiveInt = Field(
        10_000, description="Env steps after which the learners' snapshots join the population."
    )
    restart: Literal["auto", "fresh", "newest"] = Field(
        "auto",
        description="How a learner begins a round. fresh: with new weights. newest: as it ended the last one. auto: fresh "
        "for psro, else newest.",
    )
    matches: int = Field(
        100,
        ge=2,
        description="Episodes per pairing of the payoff table (psro with another solver than uniform, prioritised, league).",
    )
    window: PositiveInt = Field(1, description="self_play: how many of the newest snapshots are played against.")
    self_share: Share = Field(
        0.0, description="Share of the episodes in which the learners play each other instead of snapshots."
    )
    weighting: Literal["hard", "even"] = Field(
        "hard",
        description="A snapshot against which p of the payoff range is earned has the weight (1 - p) ** power (hard) or "
        "p * (1 - p) (even).",
    )
    power: NonNegativeFloat = Field(2.0, description="weighting hard: the exponent.")
    win_share: Share = Field(
        0.7, description="league: an exploiter that earns this share of the payoff range joins and begins anew."
    )
    exploiter_rounds: PositiveInt = Field(
        4, description="league: rounds after which an exploiter joins and begins anew even if it does not win."
    )

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, value: str) -> str:
        return _registered(value, POPULATIONS)

    @field_validator("meta_solver")
    @classmethod
    def _known_solver(cls, value: str) -> str:
        return _registered(value, META_SOLVERS)

    def make_kind(self) -> PopulationKind:
        """The object that decides whom learners meet."""
        return POPULATIONS[self.kind](self)

    @property
    def needs_payoffs(self) -> bool:
        """Whether members have to meet each other."""
        return self.make_kind().needs_payoffs

    @property
    def begins_fresh(self) -> bool:
        return self.restart == "fresh" or (self.restart == "auto" and POPULATIONS[self.kind].fresh)

    @model_validator(mode="after")
    def _nothing_is_ignored(self) -> PopulationConfig:
        special = [key for key in type(self).model_fields if key not in SHARED_KEYS]
        for key in self.changed(*special):
            takers = [name for name in POPULATIONS.names if key in POPULATIONS[name].keys]
            if self.kind not in takers:
                raise ValueError(f"{key} means nothing to {self.kind}, only to {', '.join(takers)}; drop it")
        if self.changed("matches") and not self.needs_payoffs:
            raise ValueError(f"matches means nothing here: {self.kind} needs no payoff table; drop it")
        for key in self.changed(*SOLVER_KEYS):
            solvers = [name for name in META_SOLVERS.names if key in META_SOLVERS[name].keys]
            if self.meta_solver not in solvers:
                raise ValueError(f"{key} needs meta_solver: {' or '.join(solvers)}")
        if self.changed("power") and self.weighting != "hard":
            raise ValueError("power needs weighting: hard")
        self.make_kind().check()
        return self


def _registered(name: str, registry: Registry[Any]) -> str:
    """The name as it was registered; names are case-insensitive."""
    if name not in registry:
        raise ValueError(registry.unknown(name).rstrip("."))
    return name.lower()
