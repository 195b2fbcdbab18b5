"""Who takes part in a report: what the user named, spelled out, and short names for tables and drawings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
        if self.folder is None:
            return False
        return "#" not in self.given

    @property
    def run(self) -> Path | None:
        """The run directory behind the checkpoint."""
        if self.folder is None:
            return None
        return directory_of(self.folder)

    @property
    def iteration(self) -> int | None:
        """None for built-in opponents and for copies such as ``best``, which are not numbered."""
        if self.folder is None:
            return None
        if not self.folder.name.startswith("checkpoint_"):
            return None
        return iteration_of(self.folder)

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "given": self.given, "label": self.label, "iteration": self.iteration}


def spelled_out(given: Sequence[str], all_checkpoints: bool, members: bool, with_random: bool) -> list[str]:
    """Every entrant by itself; without any checkpoint nobody takes part."""
    names: list[str] = []
    for name in given:
        if name in BUILT_IN:
            names.append(name)
            continue
        if all_checkpoints:
            names += _all_checkpoints(name)
        else:
            names.append(name)
        if members:
            names += _members(names[-1])  # of the last checkpoint: most members stand in every one of them
    if set(names) <= set(BUILT_IN):
        if all_checkpoints:
            raise ConfigError("--all-checkpoints was given without a run. Name a run directory.")
        if members:
            raise ConfigError("--members was given without a run. Name a run directory.")
        return []
    if with_random and "random" not in names:
        names.append("random")
    return names


def _all_checkpoints(name: str) -> list[str]:
    path, policy = source_of(name)
    folder = meant_by(Path(path))
    found = numbered(folder / "checkpoints")
    if not found:  # the folder of the checkpoints itself may have been named
        found = numbered(folder)
    if not found:
        raise CheckpointError(
            f"--all-checkpoints: {path} has no numbered checkpoints in it. Expected a run directory; runs keep many "
            "checkpoints by checkpoint_freq: 10 and keep_checkpoints: 100."
        )
    complete: list[str] = []
    damaged: list[tuple[Path, str]] = []
    chosen = ""
    if policy:
        chosen = f"#{policy}"
    for entry in found:
        fault = damage_of(entry, TO_PLAY)
        if fault:
            damaged.append((entry, fault))
        else:
            complete.append(f"{entry}{chosen}")
    if not complete:
        reasons = "; ".join(f"{entry.name}: {fault}" for entry, fault in damaged)
        raise CheckpointError(f"--all-checkpoints: none of the checkpoints of {path} is complete ({reasons}).")
    tell(damaged, None)
    return complete


def _members(name: str) -> list[str]:
    """Members of all sides of a population's checkpoint."""
    if "#" in name:
        raise ConfigError(f"--members adds the members of whole runs, but {name} names a policy. Drop '#...'.")
    run = SavedRun.open(source_of(name)[0])
    found: list[str] = []
    for policy, weights in run.weights.items():
        if policy.endswith(ANSWER):
            count = len(weights.get("chances", ()))
            found += [f"{name}#{policy}/{number}" for number in range(count)]
    if not found:
        raise CheckpointError(f"--members: {run.folder} comes from a run without `population:`, so it has no members.")
    return found


def _opened(names: Sequence[str]) -> dict[str, SavedRun]:
    """The runs behind those names that are checkpoints."""
    runs = {}
    for name in names:
        if name not in BUILT_IN:
            path, _ = source_of(name)
            runs[name] = SavedRun.open(path)
    return runs


def env_of(env: str, env_config: Mapping[str, Any] | None, names: Sequence[str]) -> Env:
    """The checkpoints' own env where they were trained on ``env``; else that env, with equal spaces."""
    given = Env(env, env_config)
    runs = _opened(names).values()
    if not runs:
        return given
    wanted: dict[str, Any] = {"env": env}
    if env_config is not None:
        wanted["env_config"] = env_config
    for run in runs:
        trained = {key: run.scenario.get(key) for key in wanted}
        if trained != wanted:
            return given
    return Env()


def contestants(names: Sequence[str], entrants: Sequence[Participant]) -> list[ReportParticipant]:
    """Entrants with short names: the iteration of a checkpoint, with a letter for its run where there are several."""
    folders = {name: run.folder for name, run in _opened(names).items()}
    # Policies of a single checkpoint need no word on which checkpoint they are of.
    single = len(set(folders.values())) == 1
    letters = _letters(list(folders.values()))
    found = []
    for name, entrant in zip(names, entrants, strict=True):
        one = ReportParticipant(name, entrant.label, entrant.label)
        if name in folders:
            folder = folders[name]
            one = replace(one, name=_short(entrant, folder, letters, single), folder=folder)
        found.append(one)
    if len({one.name for one in found}) < len(found):
        # Two short names are the same: the long ones of the cross-play are all different.
        return [replace(one, name=one.label) for one in found]
    return found


def _letters(folders: Sequence[Path]) -> dict[Path, str]:
    """A letter for each run that the checkpoints come from; none where there is only one run."""
    runs = dict.fromkeys(directory_of(folder) or folder for folder in folders)
    if len(runs) < 2:
        return {}
    letters = {}
    for place, run in enumerate(runs):
        if place < len(ascii_uppercase):
            letters[run] = ascii_uppercase[place]
        else:
            letters[run] = f"run {place + 1}"
    return letters


def _short(entrant: Participant, folder: Path, letters: Mapping[Path, str], single: bool) -> str:
    run = directory_of(folder)
    if run is None:
        before = entrant.label.partition("#")[0]
    else:
        before = folder.name  # such as `best`
        if before.startswith("checkpoint_"):
            before = f"iteration {iteration_of(folder)}"
        if run in letters:
            before = f"{letters[run]}: {before}"
    if entrant.policy is None:
        is_population = entrant.setup is not None and entrant.setup.stage is not None
        if is_population:
            # A whole checkpoint of a population plays the mixture that it proposes.
            return f"{before} (answer)"
        return before
    if entrant.member is None:
        after = entrant.policy
    else:
        after = f"{entrant.policy.removesuffix(ANSWER)}_{entrant.member}"  # as the run's lineage calls it
    if single:
        return after
    return f"{before} {after}"
