"""Who takes part in a report: what the user named, spelled out, and short names for tables and drawings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from marl.analysis.participants import BUILT_IN, Env, Participant, source_of
from marl.errors import CheckpointError, ConfigError
from marl.runs.checkpoint import TO_PLAY, damage_of, meant_by
from marl.runs.damage import tell
from marl.runs.manifest import iteration_of, numbered
from marl.runs.saved import SavedRun, directory_of

ANSWER = ".answer"


@dataclass(frozen=True)
class ReportParticipant:
    """An entrant with the name that the report uses. ``given`` is what cross-play was asked for."""

    given: str
    label: str  # in the cross-play
    name: str
    folder: Path | None = None  # of the checkpoint

    @property
    def whole(self) -> bool:
        """Whether it is a checkpoint with all its policies, not one of them."""
        return self.folder is not None and "#" not in self.given

    @property
    def run(self) -> Path | None:
        """The run directory behind the checkpoint."""
        return directory_of(self.folder) if self.folder is not None else None

    @property
    def iteration(self) -> int | None:
        if self.folder is None or not self.folder.name.startswith("checkpoint_"):
            return None
        return iteration_of(self.folder)

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "given": self.given, "label": self.label, "iteration": self.iteration}


def spelled_out(given: Sequence[str], all_checkpoints: bool, members: bool, with_random: bool) -> list[str]:
    """Every entrant by itself; without any checkpoint nobody takes part."""
    names: list[str] = []
    for name in given:
        found = _all_checkpoints(name) if all_checkpoints and name not in BUILT_IN else [name]
        names += found
        if members and name not in BUILT_IN:
            names += [one for checkpoint in found[-1:] for one in _members(checkpoint)]
    if all(name in BUILT_IN for name in names):
        wrong = "--all-checkpoints" if all_checkpoints else "--members" if members else None
        if wrong:
            raise ConfigError(f"{wrong} was given without a run. Name a run directory.")
        return []
    return [*names, "random"] if with_random and "random" not in names else names


def _all_checkpoints(name: str) -> list[str]:
    path, policy = source_of(name)
    folder = meant_by(Path(path))
    found = numbered(folder / "checkpoints") or numbered(folder)
    if not found:
        raise CheckpointError(
            f"--all-checkpoints: {path} has no numbered checkpoints in it. Expected a run directory; runs keep many "
            "checkpoints by checkpoint_freq: 10 and keep_checkpoints: 100."
        )
    faults = [(entry, damage_of(entry, TO_PLAY)) for entry in found]
    damaged = [(entry, fault) for entry, fault in faults if fault]
    if len(damaged) == len(found):
        reasons = "; ".join(f"{entry.name}: {fault}" for entry, fault in damaged)
        raise CheckpointError(f"--all-checkpoints: none of the checkpoints of {path} is complete ({reasons}).")
    tell(damaged, None)
    return [f"{entry}#{policy}" if policy else str(entry) for entry, fault in faults if not fault]


def _members(name: str) -> list[str]:
    """Members of all sides of a population's checkpoint."""
    if "#" in name:
        raise ConfigError(f"--members adds the members of whole runs, but {name} names a policy. Drop '#...'.")
    run = _opened(name)
    found = [
        f"{name}#{policy}/{number}"
        for policy, weights in run.weights.items()
        if policy.endswith(ANSWER)
        for number in range(len(weights.get("chances", ())))
    ]
    if not found:
        raise CheckpointError(f"--members: {run.folder} comes from a run without `population:`, so it has no members.")
    return found


def _opened(name: str) -> SavedRun:
    return SavedRun.open(source_of(name)[0])


def env_of(env: str, env_config: Mapping[str, Any] | None, names: Sequence[str]) -> Env:
    """The checkpoints' own env where they were trained on ``env``; else that env, with equal spaces."""
    trained = [_opened(name).scenario for name in names if name not in BUILT_IN]
    own = bool(trained) and all(
        one["env"] == env and (env_config is None or one.get("env_config") == env_config) for one in trained
    )
    return Env() if own else Env(env, env_config)


def contestants(names: Sequence[str], entrants: Sequence[Participant]) -> list[ReportParticipant]:
    """Entrants with short names: the iteration of a checkpoint, with a letter for its run where there are several."""
    folders = [None if name in BUILT_IN else _opened(name).folder for name in names]
    runs = list(dict.fromkeys(directory_of(folder) or folder for folder in folders if folder is not None))
    letters = {run: _letter(place) for place, run in enumerate(runs)} if len(runs) > 1 else {}
    single = len({folder for folder in folders if folder is not None}) == 1
    found = []
    for name, entrant, folder in zip(names, entrants, folders, strict=True):
        short = entrant.label if folder is None else _short(entrant, folder, letters, single)
        found.append(ReportParticipant(name, entrant.label, short, folder))
    if len({one.name for one in found}) < len(found):
        return [ReportParticipant(one.given, one.label, one.label, one.folder) for one in found]
    return found


def _short(entrant: Participant, folder: Path, letters: Mapping[Path, str], single: bool) -> str:
    run = directory_of(folder)
    if run is None:
        before = entrant.label.partition("#")[0]
    else:
        numbered = folder.name.startswith("checkpoint_")
        at = f"iteration {iteration_of(folder)}" if numbered else folder.name
        before = f"{letters[run]}: {at}" if run in letters else at
    if entrant.policy is None:
        population = entrant.setup is not None and entrant.setup.stage is not None
        return f"{before} (answer)" if population else before
    if entrant.member is None:
        after = entrant.policy
    else:
        after = f"{entrant.policy.removesuffix(ANSWER)}_{entrant.member}"  # as the run's lineage calls it
    return after if single else f"{before} {after}"


def _letter(place: int) -> str:
    return ascii_uppercase[place] if place < len(ascii_uppercase) else f"run {place + 1}"
