"""Looking at recorded episodes: a list of them, or one step by step, as lines to print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from marl.data.task import AgentID, Array, PolicyID
from marl.errors import ConfigError, DataError
from marl.offline.json_lines import Trace, read_traces
from marl.offline.manifest import MANIFEST, read_manifest
from marl.offline.trajectories import read_episodes, recorded_files

MOST_NUMBERS = 8  # of an observation that are printed


@dataclass(frozen=True)
class Recording:
    """Episodes of one or more files, and whose they are."""

    env: str
    agents: Sequence[AgentID]  # by seat
    kinds: Sequence[int]  # by seat
    policies: Sequence[PolicyID]
    episodes: Sequence[Trace]

    def listed(self) -> Iterator[str]:
        """A line per episode."""
        lengths = [len(trace.rows["rewards"]) for trace in self.episodes]
        yield f"{_many(len(lengths), 'episode')} of env {self.env!r}, {_many(sum(lengths), 'env step')}"
        for number in range(len(self.episodes)):
            yield self._headline(number)

    def _headline(self, number: int) -> str:
        trace = self.episodes[number]
        parts = [f"episode {number}"]
        if "worker" in trace.about:  # .npz files do not say
            parts.append(f"worker {trace.about['worker']}")
        parts.append(f"length {len(trace.rows['rewards'])}")
        earned = [f"{self.agents[seat]} {total:.4g}" for seat, total in self._returns(trace).items()]
        # Two spaces, as agents' names may hold one; also where nobody played.
        return "  ".join([*parts, "  ".join(earned)])

    def _returns(self, trace: Trace) -> dict[int, float]:
        """What each seat that played was paid in all."""
        paid, there = trace.rows["rewards"].sum(axis=0), np.asarray(trace.rows["alive"].any(axis=0))
        returns = {}
        for seat in range(len(self.agents)):
            if there[seat] or paid[seat]:
                returns[seat] = float(paid[seat])
        return returns

    def told(self, number: int, steps: int | None = None) -> Iterator[str]:
        """One episode: what everybody who was asked saw, did and earned."""
        rows = self._episode(number).rows
        length = len(rows["rewards"])
        if steps is None:
            steps = length
        recorded = f"{_many(len(self.episodes), 'episode')} are recorded"
        if len(self.episodes) == 1:
            recorded = "1 episode is recorded"
        yield f"env {self.env!r}, {self._headline(number)}  ({recorded})"
        for step in range(min(steps, length)):
            yield f"step {step}"
            for seat in range(len(self.agents)):
                # Who is gone may still be paid, for what a team does later.
                if rows["alive"][step, seat] or rows["rewards"][step, seat]:
                    yield f"  {self._deed(rows, step, seat)}"
        if steps < length:
            yield f"... and {_many(length - steps, 'more step')}"

    def _deed(self, rows: dict[str, Array], step: int, seat: int) -> str:
        kind = self.kinds[seat]
        place = seat - list(self.kinds).index(kind)  # among the agents of its kind, which are neighbours
        who = self.agents[seat]
        policy = int(rows["policy"][step, seat])
        if 0 <= policy < len(self.policies):  # else nobody decided for it
            who = f"{who} ({self.policies[policy]})"
        parts = [who]
        if rows["present"][step, seat]:
            parts.append(f"saw {_short(rows[f'obs.{kind}'][step, place])}")
            parts.append(f"did {_short(rows[f'actions.{kind}'][step, place])}")
        parts.append(f"earned {rows['rewards'][step, seat]:.4g}")
        for ending in ("terminated", "truncated"):
            if rows[f"{ending}s"][step, seat]:
                parts.append(ending)
        return "  ".join(parts)

    def _episode(self, number: int) -> Trace:
        if not 0 <= number < len(self.episodes):
            raise ConfigError(
                f"there is no episode {number}. The recording has the episodes 0 to {len(self.episodes) - 1}."
            )
        return self.episodes[number]

    def as_json(self, number: int | None = None, steps: int | None = None) -> dict[str, Any]:
        """All episodes in brief, or one with its columns: all steps of it, or the first few."""
        if number is None:
            episodes = [self._brief(number) for number in range(len(self.episodes))]
            return {"env": self.env, "episodes": episodes}
        rows = self._episode(number).rows
        columns = {name: column[:steps].tolist() for name, column in rows.items()}
        return {"env": self.env, **self._brief(number), "columns": columns}

    def _brief(self, number: int) -> dict[str, Any]:
        trace = self.episodes[number]
        brief: dict[str, Any] = {"episode": number}
        if "worker" in trace.about:
            brief["worker"] = trace.about["worker"]
        brief["length"] = len(trace.rows["rewards"])
        brief["returns"] = {self.agents[seat]: total for seat, total in self._returns(trace).items()}
        return brief


def _many(number: int, thing: str) -> str:
    if number == 1:
        return f"1 {thing}"
    return f"{number} {thing}s"


def _short(numbers: Array) -> str:
    """A number, or the first few of many."""
    flat = np.asarray(numbers).reshape(-1)
    texts = [f"{number:.4g}" for number in flat[:MOST_NUMBERS].tolist()]
    if np.ndim(numbers) == 0:
        return texts[0]
    if flat.size > MOST_NUMBERS:
        texts.append(f"... {flat.size} numbers")
    return f"[{' '.join(texts)}]"


def open_recording(path: Path) -> Recording:
    """The episodes of a file, or of all files of a directory."""
    files = files_of(path)
    manifest = read_manifest(files[0].parent)
    agents: list[AgentID] = []
    kinds: list[int] = []
    for index, kind in enumerate(manifest["kinds"]):
        agents += kind["agents"]
        kinds += [index] * len(kind["agents"])
    episodes: list[Trace] = []
    for file in files:
        if file.suffix == ".json":
            episodes += read_traces(file)
        else:
            episodes += [Trace(rows, {}) for rows in read_episodes(file)]
    if not episodes:
        raise DataError(f"{path} holds no complete episode.")
    for trace in episodes:
        _check(path, trace, len(agents))
    return Recording(manifest["env"], agents, kinds, manifest["policies"], episodes)


def files_of(path: Path) -> list[Path]:
    """The files of a recording: the one that is named, or all of a directory."""
    place = path.expanduser()
    if not place.exists():
        raise DataError(f"there is no recording {path}. `output: DIR` and `marl rollout --save DIR` make them.")
    if not place.is_dir():
        _check_file(place, path)
        return [place]
    files = recorded_files(place)
    if not files:
        raise DataError(
            f"{path} holds no recorded episodes. Expected trajs_0.npz or output-<date>_worker-<i>_<n>.json."
        )
    return files


def _check_file(file: Path, path: Path) -> None:
    """Whether it may be a recording at all, before anybody looks beside it."""
    if file.suffix not in (".npz", ".json"):
        why = "expected trajs_N.npz, output-<date>_worker-<i>_<n>.json, or a directory of them"
    elif not (file.parent / MANIFEST).is_file():
        why = f"there is no {MANIFEST} beside it, which says whose episodes these are"
    else:
        return
    raise DataError(f"{path} is no recording: {why}. `output: DIR` and `marl rollout --save DIR` make them.")


def _check(path: Path, trace: Trace, seats: int) -> None:
    # Files come from elsewhere as well; a column of another width would be read at the wrong places.
    for name in ("alive", "present", "rewards", "policy", "terminateds", "truncateds"):
        if trace.rows.get(name, np.zeros(0)).shape[1:] != (seats,):
            raise DataError(f"{path}: column {name!r} does not fit the {seats} agents of its trajectories.json.")
