"""The named list of PettingZoo envs (``envs.yaml``) and what was measured with each of them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from marl.config import Config, explain
from marl.errors import ConfigError
from marl.runs.atomic import write_atomically
from marl.scenario.config import Scenario
from marl.scenario.load import compose, read_yaml
from proofs.declaration import Places
from proofs.sources import Sources, changed

PACKAGES = (
    "pettingzoo",
    "mpe2",
    "gymnasium",
    "rlcard",
    "chess",
    "open_spiel",
    "shimmy",
    "pymunk",
    "box2d",
    "pygame-ce",
)
SMALL: dict[str, Any] = {
    "algo": {"name": "ppo", "train_batch_size": 32, "sgd_minibatch_size": 64, "num_sgd_iter": 1},
    "model": {"fcnet_hiddens": [16]},
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 16,
}
"""Sizes only: what is learned and who plays whom is left to the defaults."""


class Case(Config):
    """One env of the list. Without any key it is expected to pass ``marl check`` without a word."""

    name: str = Field(description="Its key in the file: family/name_vN.")
    set: dict[str, Any] = Field({}, description="Keys of the scenario that this env needs, by dotted key.")
    findings: dict[str, str] = Field(
        {}, description="Codes of what `marl check` finds here, each with the reason why it is right about the env."
    )
    in_tests: str | None = Field(None, description="The feature for which `make test` takes this env.")

    @property
    def env(self) -> str:
        return f"pettingzoo:{self.name}"

    def scenario(self) -> Scenario:
        return compose({"name": self.name.replace("/", "_"), "env": self.env, **SMALL, **self.set}, self.env)


class Sweep(Config):
    """All cases, and what is left out."""

    envs: dict[str, dict[str, Any] | None] = Field({}, description="family/name_vN to its keys.")
    left_out: dict[str, str] = Field({}, description="Envs or families to the reason why they are not in the list.")

    @property
    def cases(self) -> list[Case]:
        return [Case(name=name, **(keys or {})) for name, keys in self.envs.items()]


@dataclass
class CaseResult:
    """What happened to one env. ``failure``: the error that ended it, with the stage in which it came."""

    name: str
    fingerprint: str = ""
    sources: Sources = field(default_factory=dict)  # modules of the package that were loaded
    versions: dict[str, str] = field(default_factory=dict)
    failure: str | None = None
    env: dict[str, Any] = field(default_factory=dict)  # api, kinds and state_size, as `marl check` reports them
    findings: dict[str, str] = field(default_factory=dict)  # code to text
    env_steps: int = 0
    losses: dict[str, float] = field(default_factory=dict)  # by policy, of the last iteration
    unchanged: list[str] = field(default_factory=list)  # policies whose weights did not move
    rollout: str = ""  # last line of `marl rollout`
    peak_mb: int = 0
    seconds: float = 0.0

    def complaints(self, case: Case) -> list[str]:
        """Why the env does not hold; empty where it does."""
        if self.failure is not None:
            return [self.failure]
        found = [f"check says: {text}" for code, text in self.findings.items() if code not in case.findings]
        found += [f"check no longer finds {code!r}" for code in case.findings if code not in self.findings]
        if self.unchanged:
            found.append(f"training changed nothing in {', '.join(self.unchanged)}")
        if not self.losses or not all(abs(loss) < float("inf") for loss in self.losses.values()):
            found.append(f"losses {self.losses}")
        return found


Verdict = Literal["ok", "miss", "stale", "not run"]


def read_sweep(places: Places) -> Sweep:
    """The list; empty where a project has none."""
    path = _list_of(places)
    if not path.is_file():
        return Sweep()
    try:
        sweep = Sweep(**read_yaml(path))
        assert sweep.cases is not None  # each case is checked here, not when it runs
    except ValidationError as error:
        raise explain(error, path.name, [*Sweep.model_fields, *Case.model_fields]) from None
    return sweep


def _list_of(places: Places) -> Path:
    return places.root / "proofs" / "envs.yaml"


def result_file(case: Case, places: Places) -> Path:
    return places.results / "envs" / f"{case.name.replace('/', '-')}.json"


def read_case(case: Case, places: Places) -> CaseResult | None:
    path = result_file(case, places)
    if not path.is_file():
        return None
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
        del row["holds"]  # written out for readers
        return CaseResult(**row)
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"{path} is no result of the sweep ({error!r}). Delete it and run again.") from error


def write_case(case: Case, places: Places, result: CaseResult) -> None:
    path = result_file(case, places)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({**asdict(result), "holds": not result.complaints(case)}, indent=1) + "\n")


def verdict_of(case: Case, places: Places, package: Sources) -> Verdict:
    result = read_case(case, places)
    if result is None:
        return "not run"
    if result.fingerprint != fingerprint_of_case(case) or changed(result.sources, package):
        return "stale"
    return "miss" if result.complaints(case) else "ok"


def fingerprint_of_case(case: Case) -> str:
    """A hash of what decides the result besides the package: declaration, sizes, versions of the envs."""
    text = json.dumps([case.model_dump(exclude={"in_tests", "findings"}), SMALL, versions()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Installed versions; a missing package is named, and its envs fail when they are run."""
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "missing"
    return found
