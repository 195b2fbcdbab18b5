"""What is to be proven: ``proofs.yaml`` as checked objects, and where everything lies."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, ValidationError, model_validator

from marl.config import Config, explain
from marl.errors import ConfigError, did_you_mean
from marl.runs.result import SMALLER_IS_BETTER
from marl.scenario.config import Scenario
from marl.scenario.load import load_scenario, read_yaml
from proofs.matches import MatchGoal

Table: TypeAlias = list[list[float]]
EXACT = 1e-6  # tolerance where a proof names none: games with few outcomes are met exactly


class Proof(Config):
    """One claim about one scenario. Goals are fields of a result, such as ``evaluation.episode_reward_mean``."""

    name: str = Field(description="Its key in the file.")
    claim: str = Field(description="One sentence for the report.")
    kind: Literal["learning", "joint_values"] = Field(
        "learning",
        description="learning: evaluations alone; joint_values: also the learned tables of the two-step game.",
    )
    scenario: str = Field(description="A file of scenarios/, without .yaml.")
    set: dict[str, Any] = Field({}, description="Changes to the scenario, by dotted key.")
    seeds: list[NonNegativeInt] | PositiveInt = Field(description="Seeds, or their number (then 0, 1, ...).")
    at_least: PositiveInt | None = Field(None, description="Seeds that have to hold; default: all.")
    budget: PositiveInt = Field(description="Env steps per seed.")
    reaches: dict[str, float] = Field({}, description="Met by some evaluation within the budget.")
    ends_at: dict[str, float] = Field({}, description="Met by the last evaluation, up to the tolerance.")
    stays_below: dict[str, float] = Field({}, description="Not met by any evaluation within the budget.")
    medians: dict[PositiveInt, float] = Field(
        {},
        description="Env steps to what the newest evaluation until then has to have reached, in the median over the seeds.",
    )
    median_of: str | None = Field(None, description="The field that medians are about.")
    tables: dict[str, Table] = Field(
        {},
        description="joint_values: the team's value by the two agents' actions, in the states first, safe and risky.",
    )
    matches: MatchGoal | None = Field(None, description="Games against random play that follow the training.")
    tolerance: NonNegativeFloat = Field(EXACT, description="For ends_at and tables.")
    prepare: str | None = Field(
        None,
        description="package.module:function that fills the directory which it is given; the scenario reads it as `input`.",
    )
    clients: NonNegativeInt = Field(
        0, description="Of an external env: so many processes play the env of its evaluations for it."
    )
    search: dict[str, Any] = Field(
        {},
        description="Of a search instead of a run: dotted keys, and marks such as {grid_search: [...]} in their places.",
    )
    tune: dict[str, Any] = Field(
        {}, description="Of a search: the keys of its section tune. Every field is then the median over all trials."
    )
    stop_when_reached: bool = Field(False, description="End a seed with the evaluation that meets `reaches`.")

    @model_validator(mode="after")
    def _has_a_goal(self) -> Proof:
        if not (self.reaches or self.ends_at or self.stays_below or self.medians or self.tables or self.matches):
            raise ValueError("a proof needs reaches, ends_at, stays_below, medians, tables or matches")
        if bool(self.medians) != (self.median_of is not None):
            raise ValueError("medians and median_of belong together")
        if bool(self.tables) != (self.kind == "joint_values"):
            raise ValueError("tables belong to kind: joint_values, and only to it")
        if unknown := sorted(self.tables.keys() - {"first", "safe", "risky"}):
            raise ValueError(f"no state {', '.join(unknown)}; expected first, safe or risky")
        if bool(self.search) != bool(self.tune):
            raise ValueError("search and tune belong together")
        if self.needed > len(self.all_seeds):
            raise ValueError(f"at_least is {self.needed}, but there are only {len(self.all_seeds)} seeds")
        return self

    @property
    def all_seeds(self) -> list[int]:
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(self.seeds)

    @property
    def needed(self) -> int:
        return self.at_least or len(self.all_seeds)

    @property
    def fields(self) -> list[str]:
        """Result fields that are recorded; the first one is drawn."""
        named = [*self.reaches, *self.ends_at, *self.stays_below, *([self.median_of] if self.median_of else [])]
        return list(dict.fromkeys(named)) or ["evaluation.episode_reward_mean"]

    @property
    def goal(self) -> str:
        """The goal in words."""
        parts = [f"{_short(field)} reaches {value:g}" for field, value in self.reaches.items()]
        about = f" (+- {self.tolerance:g})" if self.tolerance > EXACT else ""
        parts += [f"{_short(field)} ends at {value:g}{about}" for field, value in self.ends_at.items()]
        parts += [f"{_short(field)} {_beyond(field)} {value:g}" for field, value in self.stays_below.items()]
        if self.median_of is not None:
            marks = ", ".join(f"{value:g} by {steps:,}" for steps, value in self.medians.items())
            parts.append(f"median {_short(self.median_of)} {marks} steps")
        parts += [f"joint values within {self.tolerance:g}"] if self.tables else []
        parts += [str(self.matches)] if self.matches else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Places:
    """Where declarations, scenarios, results and the report of a project lie."""

    root: Path

    @property
    def declarations(self) -> Path:
        return self.root / "proofs" / "proofs.yaml"

    @property
    def results(self) -> Path:
        return self.root / "proofs" / "results"

    @property
    def report(self) -> Path:
        return self.root / "docs" / "proofs.md"

    @property
    def pictures(self) -> Path:
        return self.root / "docs" / "proofs"

    def unfinished(self, proof: Proof) -> Path:
        """Seeds of a proof that is being run again."""
        return self.root / "build" / "proofs" / f"{proof.name}.json"

    def scenario(self, proof: Proof) -> Path:
        return self.root / "scenarios" / f"{proof.scenario}.yaml"

    def recipe(self, proof: Proof) -> str:
        """The text of the module that prepares the proof; empty where nothing has to be prepared."""
        if proof.prepare is None:
            return ""
        module, _, _ = proof.prepare.partition(":")
        return (self.root / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")

    def load(self, proof: Proof, seed: int, prepared: Path | None = None) -> Scenario:
        """The scenario as it is run: the proof's changes and seed, what was prepared, and the budget as its only end."""
        changes = {**proof.set, "seed": seed, "stop": {"timesteps_total": proof.budget}}
        if prepared is not None:
            changes["input"] = str(prepared)
        return load_scenario(self.scenario(proof), changes=changes)


def read_proofs(places: Places) -> list[Proof]:
    """All proofs in the order of the file."""
    proofs = []
    for name, keys in read_yaml(places.declarations).items():
        try:
            proofs.append(Proof(name=name, **keys))
        except ValidationError as error:
            raise explain(error, f"{places.declarations.name}: {name}", Proof.model_fields) from None
        except TypeError as error:
            raise ConfigError(f"{places.declarations.name}: {name}: {error}") from error
    return proofs


class Named(Protocol):
    """What can be picked by its name."""

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


def choose(proofs: Sequence[N], only: Sequence[str]) -> list[N]:
    """Those that the names or patterns (``two_step_*``) pick; all of them without any."""
    names = [proof.name for proof in proofs]
    for pattern in only:
        if not fnmatch.filter(names, pattern):
            raise ConfigError(f"no proof {pattern!r}. Known: {', '.join(names)}.{did_you_mean(pattern, names)}")
    return [p for p in proofs if not only or any(fnmatch.fnmatch(p.name, pattern) for pattern in only)]


def _beyond(field: str) -> str:
    return "stays above" if field in SMALLER_IS_BETTER else "stays below"


def _short(field: str) -> str:
    """``evaluation.episode_reward_mean`` is what nearly every goal is about: ``reward``."""
    inner = field.removeprefix("evaluation.")
    return {"episode_reward_mean": "reward"}.get(inner, inner.replace("policy_reward_mean.", "reward of "))
