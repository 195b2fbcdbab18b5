"""Keys of ``population:``: how the opponents of a learner are chosen, and when it joins them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt, field_validator, model_validator

from marl.config import Config, Named
from marl.needs import Need, declare, needs, one_of, registered
from marl.populations.kinds import PopulationKind, kinds_in_words
from marl.populations.meta_solvers import META_SOLVERS
from marl.populations.pipelines import POPULATIONS  # with all kinds
from marl.registry import Registry


def _kinds_with(key: str) -> Need:
    """Kinds say by themselves which keys they take, those from outside of marl too."""
    return needs(registered("kind", partial(_names_with, POPULATIONS, key)))


def _solvers_with(key: str) -> Need:
    return needs(registered("meta_solver", partial(_names_with, META_SOLVERS, key)))


def _names_with(registry: Registry[Any], key: str) -> tuple[str, ...]:
    """Asked anew each time: more can be registered after this module was imported."""
    names = [name for name in registry.names if key in registry[name].keys]
    return tuple(names)


Share = Annotated[float, Field(ge=0.0, le=1.0)]
SHARED_KEYS = (
    "kind", "oracle", "players", "symmetric", "round_timesteps", "restart", "matches", "self_share",
)  # fmt: skip
"""Keys of every kind; all others mean something to the kinds alone that name them."""


class PopulationConfig(Config):
    """Learners train against snapshots of each other."""

    kind: str = Field(
        description=kinds_in_words(), json_schema_extra=Named(names=lambda: POPULATIONS.names, meaning=kinds_in_words)
    )
    meta_solver: str = Field(
        "nash",
        description="psro: the mixture to respond to; prioritised, league: the mixture that is the answer.",
        json_schema_extra=Named(names=lambda: META_SOLVERS.names, needs=(_kinds_with("meta_solver"),)),
    )
    alpha: NonNegativeFloat = Field(
        10.0,
        description="Strength of selection.",
        json_schema_extra=declare(_kinds_with("alpha"), _solvers_with("alpha")),
    )
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
        "for psro, p2sro and anytime_psro, else newest.",
    )
    matches: int = Field(
        100,
        ge=2,
        description="Episodes per pairing of the payoff table (psro and p2sro with another solver than uniform, anytime_psro, "
        "prioritised, league).",
    )
    window: PositiveInt = Field(
        1,
        description="How many of the newest snapshots are played against.",
        json_schema_extra=declare(_kinds_with("window")),
    )
    self_share: Share = Field(
        0.0, description="Share of the episodes in which the learners play each other instead of snapshots."
    )
    weighting: Literal["hard", "even"] = Field(
        "hard",
        description="A snapshot against which p of the payoff range is earned has the weight (1 - p) ** power (hard) or "
        "p * (1 - p) (even).",
        json_schema_extra=declare(_kinds_with("weighting")),
    )
    power: NonNegativeFloat = Field(
        2.0,
        description="The exponent of the weight.",
        json_schema_extra=declare(_kinds_with("power"), needs(one_of("weighting", "hard"))),
    )
    win_share: Share = Field(
        0.7,
        description="An exploiter that earns this share of the payoff range joins and begins anew.",
        json_schema_extra=declare(_kinds_with("win_share")),
    )
    exploiter_rounds: PositiveInt = Field(
        4,
        description="Rounds after which an exploiter joins and begins anew even if it does not win.",
        json_schema_extra=declare(_kinds_with("exploiter_rounds")),
    )

    member_rounds: PositiveInt = Field(
        4,
        description="Rounds for which a learner's member follows it before it is fixed and the learner begins anew.",
        json_schema_extra=declare(_kinds_with("member_rounds")),
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
        if self.restart == "auto":
            return POPULATIONS[self.kind].fresh
        return self.restart == "fresh"

    @model_validator(mode="after")
    def _fits_its_kind(self) -> PopulationConfig:
        """What only the kind itself can say, which may come from outside of marl."""
        if self.changed("matches") and not self.needs_payoffs:
            raise ValueError(
                f"matches: {self.matches} needs a kind that measures payoffs, but {self.kind} needs no payoff table. Drop "
                "matches"
            )
        self.make_kind().check()
        return self


def _registered(name: str, registry: Registry[Any]) -> str:
    """The name as it was registered; names are case-insensitive."""
    if name not in registry:
        raise ValueError(registry.unknown(name).rstrip("."))
    return name.lower()
