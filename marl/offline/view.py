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
        worker = f"  worker {trace.about['worker']}" if "worker" in trace.about else ""
        earned = "  ".join(f"{self.agents[seat]} {total:.4g}" for seat, total in self._returns(trace).items())
        return f"episode {number}{worker}  length {len(trace.rows['rewards'])}  {earned}"

    def _returns(self, trace: Trace) -> dict[int, float]:
        """What each seat that played was paid in all."""
        paid, there = trace.rows["rewards"].sum(axis=0), np.asarray(trace.rows["alive"].any(axis=0))
        return {seat: float(paid[seat]) for seat in range(len(self.agents)) if there[seat] or paid[seat]}

    def told(self, number: int, steps: int | None = None) -> Iterator[str]:
        """One episode: what everybody who was asked saw, did and earned."""
        rows = self._episode(number).rows
        length = len(rows["rewards"])
        recorded = f"{_many(len(self.episodes), 'episode')} {'is' if len(self.episodes) == 1 else 'are'} recorded"
        yield f"env {self.env!r}, {self._headline(number)}  ({recorded})"
        for step in range(length if steps is None else min(steps, length)):
            yield f"step {step}"
            for seat in range(len(self.agents)):
                if rows["alive"][step, seat] or rows["rewards"][step, seat]:
                    yield f"  {self._deed(rows, step, seat)}"
        if steps is not None and steps < length:
            yield f"... and {_many(length - steps, 'more step')}"

    def _deed(self, rows: dict[str, Array], step: int, seat: int) -> str:
        k = self.kinds[seat]
        place = seat - list(self.kinds).index(k)
        who = self._policy(int(rows["policy"][step, seat]))
        parts = [self.agents[seat] + (f" ({who})" if who else "")]
        if rows["present"][step, seat]:
            parts += [
                f"saw {_short(rows[f'obs.{k}'][step, place])}",
                f"did {_short(rows[f'actions.{k}'][step, place])}",
            ]
        parts.append(f"earned {rows['rewards'][step, seat]:.4g}")
        ends = [word for word in ("terminated", "truncated") if rows[f"{word}s"][step, seat]]
        return "  ".join([*parts, *ends])

    def _policy(self, index: int) -> PolicyID | None:
        return self.policies[index] if 0 <= index < len(self.policies) else None

    def _episode(self, number: int) -> Trace:
        if not 0 <= number < len(self.episodes):
            raise ConfigError(
                f"there is no episode {number}. The recording has the episodes 0 to {len(self.episodes) - 1}."
            )
        return self.episodes[number]

    def as_json(self, number: int | None = None, steps: int | None = None) -> dict[str, Any]:
        """All episodes in brief, or one with its columns: all steps of it, or the first few."""
        if number is not None:
            rows = self._episode(number).rows
            return {"env": self.env, **self._brief(number), "columns": {k: v[:steps].tolist() for k, v in rows.items()}}
        return {"env": self.env, "episodes": [self._brief(n) for n in range(len(self.episodes))]}

    def _brief(self, number: int) -> dict[str, Any]:
        trace = self.episodes[number]
        returns = {self.agents[seat]: total for seat, total in self._returns(trace).items()}
        worker = {"worker": trace.about["worker"]} if "worker" in trace.about else {}
        return {"episode": number, **worker, "length": len(trace.rows["rewards"]), "returns": returns}


def _many(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _short(numbers: Array) -> str:
    """A number, or the first few of many."""
    flat = np.asarray(numbers).reshape(-1)
    texts = [f"{number:.4g}" for number in flat[:MOST_NUMBERS].tolist()]
    if np.ndim(numbers) == 0:
        return texts[0]
    return f"[{' '.join(texts)}{f' ... {flat.size} numbers' if flat.size > MOST_NUMBERS else ''}]"


def open_recording(path: Path) -> Recording:
    """The episodes of a file, or of all files of a directory."""
    place = path.expanduser()
    if not place.exists():
        raise DataError(f"there is no recording {path}. `output: DIR` and `marl rollout --save DIR` make them.")
    if not place.is_dir():
        _check_file(place, path)
    files = recorded_files(place) if place.is_dir() else [place]
    if not files:
        raise DataError(
            f"{path} holds no recorded episodes. Expected trajs_0.npz or output-<date>_worker-<i>_<n>.json."
        )
    manifest = read_manifest(files[0].parent)
    kinds = [k for k, kind in enumerate(manifest["kinds"]) for _ in kind["agents"]]
    agents = [agent for kind in manifest["kinds"] for agent in kind["agents"]]
    episodes = [trace for file in files for trace in _episodes(file)]
    if not episodes:
        raise DataError(f"{path} holds no complete episode.")
    for trace in episodes:
        _check(path, trace, len(agents))
    return Recording(manifest["env"], agents, kinds, manifest["policies"], episodes)


def _check_file(file: Path, path: Path) -> None:
    """Whether it may be a recording at all, before anybody looks beside it."""
    if file.suffix not in (".npz", ".json"):
        why = "expected trajs_N.npz, output-<date>_worker-<i>_<n>.json, or a directory of them"
    elif not (file.parent / MANIFEST).is_file():
        why = f"there is no {MANIFEST} beside it, which says whose episodes these are"
    else:
        return
    raise DataError(f"{path} is no recording: {why}. `output: DIR` and `marl rollout --save DIR` make them.")


def _episodes(file: Path) -> list[Trace]:
    return read_traces(file) if file.suffix == ".json" else [Trace(rows, {}) for rows in read_episodes(file)]


def _check(path: Path, trace: Trace, seats: int) -> None:
    for name in ("alive", "present", "rewards", "policy", "terminateds", "truncateds"):
        if trace.rows.get(name, np.zeros(0)).shape[1:] != (seats,):
            raise DataError(f"{path}: column {name!r} does not fit the {seats} agents of its trajectories.json.")
