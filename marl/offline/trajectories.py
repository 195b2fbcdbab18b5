"""Recorded episodes: ``trajs_0.npz``, ``trajs_1.npz``, ... beside ``trajectories.json``, which says whose they are.

A file holds whole episodes, one after the other: ``lengths`` counts the env steps of each, and every other array has one
row per env step. With ``A`` seats, ``A_k`` of them of kind ``k``:

    obs.k, new_obs.k      [S, A_k, width]   what the agents saw before and after the step, flat
    actions.k             [S, A_k, ...]     what they did, as ``data/actions.py`` stores it
    legal.k, new_legal.k  [S, A_k, options] what they might have done (width 0: everything)
    rewards, action_logp  [S, A]            what the env paid; how likely the decision was
    present, new_present  [S, A]            who decides in this step, and in the next one
    alive, new_alive      [S, A]            who has been seen and has not ended
    terminateds, truncateds [S, A]          who ended in this step
    policy                [S, A]            who played: a place in the ``policies`` of the JSON file
    state, new_state      [S, size]         the env's global state

What follows from these (``elapsed``, ``active``, ``t``) is worked out while reading.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from marl.data.batch import MultiAgentBatch
from marl.data.task import AgentType, Array, Bools, Floats, Ints, PolicyID, Task
from marl.errors import DataError
from marl.offline.json_lines import read_traces, trace_files
from marl.offline.manifest import check_fits, read_manifest
from marl.offline.npz import read_npz
from marl.storage import write_atomically

Rows: TypeAlias = dict[str, Array]
"""Some env steps of one episode, by column."""

KIND_COLUMNS = ("obs", "new_obs", "actions", "legal", "new_legal")
SEAT_COLUMNS = (
    "rewards", "action_logp", "present", "new_present", "alive", "new_alive", "terminateds", "truncateds", "policy",
)  # fmt: skip
ROW_COLUMNS = ("state", "new_state")


def file_name(number: int) -> str:
    return f"trajs_{number}.npz"


def numbered_files(directory: Path) -> list[Path]:
    """The files of a directory in the order of their numbers."""
    found = [path for path in directory.glob("trajs_*.npz") if path.stem.removeprefix("trajs_").isdigit()]
    return sorted(found, key=lambda path: int(path.stem.removeprefix("trajs_")))


def recorded_files(directory: Path) -> list[Path]:
    """All recordings of a directory, arrays and texts."""
    return [*numbered_files(directory), *trace_files(directory)]


# -- writing -----------------------------------------------------------------------------------------------------------


def rows_of(batch: MultiAgentBatch, rows: slice, env_id: int) -> Rows:
    """Copies of some rows of one lane."""
    found: Rows = {f"{name}.{k}": getattr(batch, name)[k][rows, env_id].copy() for name, k in _kind_columns(batch.task)}
    for name in (*SEAT_COLUMNS, *ROW_COLUMNS):
        column = batch.policy_index.astype(np.int16) if name == "policy" else getattr(batch, name)
        found[name] = column[rows, env_id].copy()
    return found


def empty_rows(task: Task, steps: int) -> Rows:
    """Room for so many env steps in which nobody is there yet."""
    dtypes: dict[str, DTypeLike] = {"rewards": np.float32, "action_logp": np.float32, "policy": np.int16}
    for k, kind in enumerate(task.kinds):
        dtypes |= {f"obs.{k}": kind.obs_dtype, f"new_obs.{k}": kind.obs_dtype, f"actions.{k}": kind.action_dtype}
    dtypes |= dict.fromkeys(ROW_COLUMNS, np.float32)
    shapes = _shapes(task, task.state_size)
    return {name: np.zeros((steps, *shape), dtypes.get(name, np.bool_)) for name, shape in shapes.items()}


def joined(parts: Sequence[Rows]) -> Rows:
    """Parts of an episode, or episodes, one after the other."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def is_over(rows: Rows) -> bool:
    """Whether nobody is left after the last of these env steps."""
    ended = rows["terminateds"][-1] | rows["truncateds"][-1]
    return not ((rows["alive"][-1] | rows["new_present"][-1]) & ~ended).any()


def write_episodes(path: Path, episodes: Sequence[Rows]) -> None:
    """Replace the file in one step: readers see all of the old one or all of the new one."""
    lengths = np.array([len(rows["rewards"]) for rows in episodes], np.int64)
    content = io.BytesIO()
    np.savez_compressed(content, lengths=lengths, **joined(episodes))  # type: ignore[arg-type]
    write_atomically(path, content.getvalue())


# -- reading -----------------------------------------------------------------------------------------------------------


class Trajectories:
    """Recorded episodes of one task in memory: ``lengths`` ``[n]``, columns ``[S, ...]``, and what follows from them."""

    def __init__(self, task: Task, lengths: Ints, columns: Rows) -> None:
        self.task, self.lengths = task, lengths
        self.starts: Ints = np.concatenate([[0], np.cumsum(lengths)])
        self.columns = dict(columns)
        self.columns["elapsed"] = self._elapsed()

    def __len__(self) -> int:
        """Number of episodes."""
        return len(self.lengths)

    @property
    def env_steps(self) -> int:
        return int(self.starts[-1])

    def _elapsed(self) -> Ints:
        """Env steps until a decision's agent is asked again or has ended; 0 where there is no decision to learn from.

        A decision that nothing closed within its episode, and one that was truncated without a last observation, has
        no outcome and is left out.
        """
        columns, rows = self.columns, np.arange(self.env_steps)[:, None]
        stops = columns["new_present"] | columns["terminateds"] | columns["truncateds"]
        beyond = np.where(stops, rows, self.env_steps)
        closing = np.minimum.accumulate(beyond[::-1], axis=0)[::-1]
        last = np.repeat(self.starts[1:], self.lengths)[:, None]  # first row of the next episode
        blind = columns["truncateds"] & ~columns["new_alive"]
        closed = columns["present"] & (closing < last)
        closed &= ~np.take_along_axis(blind, np.minimum(closing, self.env_steps - 1), axis=0)
        return np.where(closed, closing - rows + 1, 0)

    def batch(self, chosen: Ints, policy_ids: Sequence[PolicyID], policy_of: Ints) -> MultiAgentBatch:
        """Whole episodes, one after the other in a single lane; ``policy_of`` ``[len(chosen), A]`` says who learns."""
        lengths = self.lengths[chosen]
        rows = np.concatenate([np.arange(self.starts[i], self.starts[i + 1]) for i in chosen.tolist()])
        columns: dict[str, Any] = {
            name: [self.columns[f"{name}.{k}"][rows][:, None] for k in range(len(self.task.kinds))]
            for name in KIND_COLUMNS
        }
        names = [name for name in (*SEAT_COLUMNS, *ROW_COLUMNS, "elapsed") if name != "policy"]
        columns |= {name: self.columns[name][rows][:, None] for name in names}
        index = np.repeat(policy_of, lengths, axis=0)[:, None]
        steps = np.concatenate([np.arange(length) for length in lengths.tolist()])[:, None]
        over = np.zeros((len(rows), 1), bool)
        over[np.cumsum(lengths) - 1] = True
        return MultiAgentBatch(
            self.task, tuple(policy_ids), **columns, active=columns["elapsed"] > 0, policy_index=index,
            new_policy_index=index, t=steps, eps_id=np.repeat(chosen, lengths)[:, None],
            over=over,
        )  # fmt: skip

    def returns(self, chosen: Ints) -> Floats:
        """``[len(chosen), A]``: all that each seat was paid in each of these episodes."""
        paid = self.columns["rewards"]
        return np.stack([paid[self.starts[i] : self.starts[i + 1]].sum(axis=0) for i in chosen.tolist()])

    def seen(self, chosen: Ints) -> Bools:
        """``[len(chosen), A]``: who played at all."""
        alive = self.columns["alive"]
        return np.stack([alive[self.starts[i] : self.starts[i + 1]].any(axis=0) for i in chosen.tolist()])


def read_trajectories(
    paths: Sequence[Path], task: Task, normalize_actions: bool, needs_state: bool = False
) -> Trajectories:
    """All episodes of these files, checked against the task; actions in the units that the run speaks.

    A global state that was not recorded is zeros where nobody ``needs_state``.
    """
    parts, lengths = [], []
    for path in paths:
        manifest = read_manifest(path.parent)
        check_fits(manifest, task, path.parent, needs_state)
        count, rows = _read(path, task, manifest["state_size"])
        for k, kind in enumerate(task.kinds):
            if kind.columns.numbers and manifest["normalized_actions"] != normalize_actions:
                convert = kind.columns.squeezed if normalize_actions else kind.columns.stretched
                rows[f"actions.{k}"] = convert(rows[f"actions.{k}"])
        parts.append(rows)
        lengths.append(count)
    return Trajectories(task, np.concatenate(lengths), joined(parts))


def read_episodes(path: Path) -> list[Rows]:
    """The episodes of one file as they were written."""
    if path.suffix == ".json":
        return [trace.rows for trace in read_traces(path)]
    arrays = _arrays(path)
    ends = np.cumsum(arrays.pop("lengths"))
    for name, column in arrays.items():
        if column.shape[:1] != (ends[-1],):
            raise DataError(
                f"{path}: column {name!r} has shape {column.shape}, expected {ends[-1]} rows. It is damaged."
            )
    return [
        {name: column[end - length : end] for name, column in arrays.items()}
        for end, length in zip(ends.tolist(), np.diff(ends, prepend=0).tolist(), strict=True)
    ]


def _read(path: Path, task: Task, state_size: int) -> tuple[Ints, Rows]:
    """Lengths and columns of one file; every column has its shape, and its numbers can be learned from."""
    arrays = _arrays(path)
    steps = int(arrays["lengths"].sum())
    rows: Rows = {}
    empty = empty_rows(task, 0)
    for name, shape in _shapes(task, state_size).items():
        if name not in arrays or arrays[name].shape != (steps, *shape):
            got = f"shape {arrays[name].shape}" if name in arrays else "nothing"
            raise DataError(f"{path}: column {name!r} has {got}, expected {(steps, *shape)}. The file is damaged.")
        rows[name] = arrays[name].astype(empty[name].dtype, copy=False)  # texts do not tell types
    _check_numbers(path, task, rows)
    if state_size != task.state_size:
        rows |= {name: np.zeros((steps, task.state_size), np.float32) for name in ROW_COLUMNS}
    return arrays["lengths"], rows


def _check_numbers(path: Path, task: Task, rows: Rows) -> None:
    """Cells of absent agents mean nothing, whatever stands there."""
    for k, kind in enumerate(task.kinds):
        here, after = rows["present"][:, kind.seats], rows["new_alive"][:, kind.seats]
        looked_at = {f"obs.{k}": here, f"actions.{k}": here, f"new_obs.{k}": after}
        for name, cells in looked_at.items():
            _check_finite(path, name, rows[name][cells])
        table = rows[f"actions.{k}"][here].reshape(int(here.sum()), -1)[:, list(kind.columns.choices)]
        sizes = np.array([kind.columns.sizes[c] for c in kind.columns.choices], np.int64)
        if ((table < 0) | (table >= sizes)).any():
            raise DataError(f"{path}: column 'actions.{k}' holds actions outside of {kind.action_space}.")
        if kind.legal_width and not all_legal(kind, rows[f"legal.{k}"][here], rows[f"actions.{k}"][here]):
            raise DataError(f"{path}: column 'actions.{k}' holds actions that the mask beside them forbids.")
    for name in ("rewards", *ROW_COLUMNS):
        _check_finite(path, name, rows[name])


def all_legal(kind: AgentType, legal: Bools, actions: Array) -> bool:
    """Whether every stored action is allowed by its mask."""
    table = actions.reshape(len(actions), -1).astype(np.int64)
    choices = kind.columns.options_of(legal)
    return all(bool(np.take_along_axis(options, table[:, [c]], axis=1).all()) for c, options in choices)


def _check_finite(path: Path, name: str, numbers: Array) -> None:
    if not np.isfinite(numbers).all():
        raise DataError(f"{path}: column {name!r} holds NaN or infinity, which nobody can learn from.")


def _arrays(path: Path) -> dict[str, Array]:
    if path.suffix == ".json":
        return _from_text(path)
    try:
        arrays = read_npz(path)
        lengths = arrays.pop("lengths").astype(np.int64)
        if lengths.ndim != 1 or not len(lengths) or (lengths < 1).any():
            raise ValueError("its episodes have no lengths")
        return {"lengths": lengths, **arrays}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} cannot be read as recorded episodes ({error!r}). Record them again.") from error


def _from_text(path: Path) -> dict[str, Array]:
    episodes = read_episodes(path)
    if not episodes:
        raise DataError(f"{path} holds no recorded episode.")
    try:
        return {"lengths": np.array([len(rows["rewards"]) for rows in episodes], np.int64), **joined(episodes)}
    except (KeyError, ValueError) as error:
        raise DataError(f"{path}: its episodes do not fit together ({error}). Record them again.") from error


def _kind_columns(task: Task) -> list[tuple[str, int]]:
    return [(name, k) for name in KIND_COLUMNS for k in range(len(task.kinds))]


def _shapes(task: Task, state_size: int) -> dict[str, tuple[int, ...]]:
    """Of one row of every column."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, k in _kind_columns(task):
        kind = task.kinds[k]
        width = {"obs": (kind.obs_width,), "actions": kind.action_shape, "legal": (kind.legal_width,)}
        shapes[f"{name}.{k}"] = (kind.size, *width[name.removeprefix("new_")])
    shapes |= dict.fromkeys(SEAT_COLUMNS, (task.num_seats,))
    return shapes | dict.fromkeys(ROW_COLUMNS, (state_size,))
