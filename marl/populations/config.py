"""Keys of ``population:``: how the opponents of a learner are chosen, and when it joins them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator

from marl.config import Config

Share = Annotated[float, Field(ge=0.0, le=1.0)]
ONLY_FOR: dict[str, tuple[str, ...]] = {
    "meta_solver": ("psro", "prioritised", "league"),
    "window": ("self_play",),
    "weighting": ("prioritised", "league"),
    "power": ("prioritised", "league"),
    "win_share": ("league",),
    "exploiter_rounds": ("league",),
    "alpha": ("psro", "prioritised", "league"),
}


class PopulationConfig(Config):
    """Learners train against snapshots of each other."""

    kind: Literal["self_play", "fictitious", "prioritised", "league", "psro"] = Field(
        description="Against whom a learner plays. self_play: the newest snapshots. fictitious: all snapshots alike. "
        "prioritised: snapshots that it does not beat yet. league: prioritised, with exploiters of the main agents and of the "
        "league. psro: the meta-solver's mixture, to which each learner becomes a best response."
    )
    meta_solver: Literal["uniform", "nash", "projected_replicator", "alpha_rank"] = Field(
        "nash", description="psro: the mixture to respond to; prioritised, league: the mixture that is the answer."
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

    @property
    def needs_payoffs(self) -> bool:
        """Whether members have to meet each other."""
        return self.kind in ("prioritised", "league") or (self.kind == "psro" and self.meta_solver != "uniform")

    @property
    def begins_fresh(self) -> bool:
        return self.restart == "fresh" or (self.restart == "auto" and self.kind == "psro")

    @model_validator(mode="after")
    def _nothing_is_ignored(self) -> PopulationConfig:
        for key, kinds in ONLY_FOR.items():
            if self.changed(key) and self.kind not in kinds:
                raise ValueError(f"{key} means nothing to {self.kind}, only to {', '.join(kinds)}; drop it")
        if self.changed("matches") and not self.needs_payoffs:
            raise ValueError(f"matches means nothing here: {self.kind} needs no payoff table; drop it")
        if self.changed("alpha") and self.meta_solver != "alpha_rank":
            raise ValueError("alpha needs meta_solver: alpha_rank")
        if self.changed("power") and self.weighting != "hard":
            raise ValueError("power needs weighting: hard")
        if self.kind == "psro" and self.self_share:
            raise ValueError("psro responds to the mixture alone; drop self_share")
        return self
