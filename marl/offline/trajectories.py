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
from marl.offline.manifest import check_fits, read_manifest, told_logp
from marl.offline.npz import read_npz
from marl.storage import write_atomically

Rows: TypeAlias = dict[str, Array]
"""Some env steps of one episode, by column."""

KIND_COLUMNS = ("obs", "new_obs", "actions", "legal", "new_legal")
SEAT_COLUMNS = (
    "rewards", "action_logp", "present", "new_present", "alive", "new_alive", "terminateds", "truncateds", "policy",
)  # fmt: skip
ROW_COLUMNS = ("state", "new_state")
TOLD = "told"
"""``[S, A]``, worked out while reading: whose ``action_logp`` is how likely the behaviour was to choose so."""


def file_name(number: int) -> str:
    return f"trajs_{number}.npz"


def numbered_files(directory: Path) -> list[Path]:
    """The files of a directory in the order of their numbers."""
    found = []
    for path in directory.glob("trajs_*.npz"):
        number = path.stem.removeprefix("trajs_")
        if number.isdigit():
            found.append((int(number), path))
    found.sort()
    return [path for _, path in found]


def recorded_files(directory: Path) -> list[Path]:
    """All recordings of a directory, arrays and texts."""
    return [*numbered_files(directory), *trace_files(directory)]


# -- writing -----------------------------------------------------------------------------------------------------------


def rows_of(batch: MultiAgentBatch, rows: slice, env_id: int) -> Rows:
    """Copies of some rows of one env copy."""
    # Copies: the buffer is filled anew long before the episode ends.
    found: Rows = {}
    for name, k in _kind_columns(batch.task):
        found[f"{name}.{k}"] = getattr(batch, name)[k][rows, env_id].copy()
    for name in (*SEAT_COLUMNS, *ROW_COLUMNS):
        if name == "policy":
            found[name] = batch.policy_index[rows, env_id].astype(np.int16)
        else:
            found[name] = getattr(batch, name)[rows, env_id].copy()
    return found


def empty_rows(task: Task, steps: int) -> Rows:
    """Room for so many env steps in which nobody is there yet."""
    dtypes: dict[str, DTypeLike] = {"rewards": np.float32, "action_logp": np.float32, "policy": np.int16}
    dtypes |= dict.fromkeys(ROW_COLUMNS, np.float32)
    for k, kind in enumerate(task.kinds):
        dtypes[f"obs.{k}"] = kind.obs_dtype
        dtypes[f"new_obs.{k}"] = kind.obs_dtype
        dtypes[f"actions.{k}"] = kind.action_dtype
    rows = {}
    for name, shape in _shapes(task, task.state_size).items():
        rows[name] = np.zeros((steps, *shape), dtypes.get(name, np.bool_))
    return rows


def joined(parts: Sequence[Rows]) -> Rows:
    """Parts of an episode, or episodes, one after the other."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def is_over(rows: Rows) -> bool:
    """Whether nobody is left after the last of these env steps."""
    ended = rows["terminateds"][-1] | rows["truncateds"][-1]
    there = rows["alive"][-1] | rows["new_present"][-1]  # also who is seen for the first time after this step
    left = there & ~ended
    return not left.any()


def write_episodes(path: Path, episodes: Sequence[Rows]) -> None:
    """Replace the file in one step: readers see all of the old one or all of the new one."""
    lengths = np.array([len(rows["rewards"]) for rows in episodes], np.int64)
    content = io.BytesIO()
    # Into memory first: a full disk then costs nothing but the write.
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
        # Backwards over time: at each row the nearest one, here or later, in which something closes a decision.
        beyond = np.where(stops, rows, self.env_steps)
        closing = np.minimum.accumulate(beyond[::-1], axis=0)[::-1]
        last = np.repeat(self.starts[1:], self.lengths)[:, None]  # first row of the next episode
        blind = columns["truncateds"] & ~columns["new_alive"]
        closed = columns["present"] & (closing < last)
        closed &= ~np.take_along_axis(blind, np.minimum(closing, self.env_steps - 1), axis=0)
        return np.where(closed, closing - rows + 1, 0)

    def batch(self, chosen: Ints, policy_ids: Sequence[PolicyID], policy_of: Ints) -> MultiAgentBatch:
        """Whole episodes, one after the other in a single env copy; ``policy_of`` ``[len(chosen), A]`` says who learns."""
        lengths = self.lengths[chosen]
        ends = np.cumsum(lengths)
        rows = np.concatenate([np.arange(self.starts[i], self.starts[i + 1]) for i in chosen.tolist()])
        columns: dict[str, Any] = {name: [] for name in KIND_COLUMNS}
        for name, k in _kind_columns(self.task):
            columns[name].append(self.columns[f"{name}.{k}"][rows][:, None])
        for name in (*SEAT_COLUMNS, *ROW_COLUMNS, "elapsed"):
            columns[name] = self.columns[name][rows][:, None]
        del columns["policy"]  # who played then; who learns now is `policy_of`
        index = np.repeat(policy_of, lengths, axis=0)[:, None]
        steps = np.arange(len(rows)) - np.repeat(ends - lengths, lengths)
        over = np.zeros((len(rows), 1), bool)
        over[ends - 1] = True
        return MultiAgentBatch(
            self.task, tuple(policy_ids), **columns, active=columns["elapsed"] > 0, policy_index=index,
            new_policy_index=index, t=steps[:, None], eps_id=np.repeat(chosen, lengths)[:, None],
            over=over,
        )  # fmt: skip

    def returns(self, chosen: Ints) -> Floats:
        """``[len(chosen), A]``: all that each seat was paid in each of these episodes."""
        return np.stack([self._rows("rewards", episode).sum(axis=0) for episode in chosen.tolist()])

    def seen(self, chosen: Ints) -> Bools:
        """``[len(chosen), A]``: who played at all."""
        return np.stack([self._rows("alive", episode).any(axis=0) for episode in chosen.tolist()])

    def _rows(self, column: str, episode: int) -> Array:
        return self.columns[column][self.starts[episode] : self.starts[episode + 1]]


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
        rows[TOLD] = rows["present"] & np.isin(rows["policy"], told_logp(manifest))
        if manifest["normalized_actions"] != normalize_actions:
            _convert_actions(rows, task, normalize_actions)
        parts.append(rows)
        lengths.append(count)
    return Trajectories(task, np.concatenate(lengths), joined(parts))


def _convert_actions(rows: Rows, task: Task, normalize: bool) -> None:
    """From the env's units to -1 .. 1, or back; choices have no units."""
    for k, kind in enumerate(task.kinds):
        if not kind.columns.numbers:
            continue
        convert = kind.columns.stretched
        if normalize:
            convert = kind.columns.squeezed
        rows[f"actions.{k}"] = convert(rows[f"actions.{k}"])
        rows[TOLD][:, kind.seats] = False  # a density is one of other units


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
    episodes = []
    start = 0
    for end in ends.tolist():
        episodes.append({name: column[start:end] for name, column in arrays.items()})
        start = end
    return episodes


def _read(path: Path, task: Task, state_size: int) -> tuple[Ints, Rows]:
    """Lengths and columns of one file; every column has its shape, and its numbers can be learned from."""
    arrays = _arrays(path)
    steps = int(arrays["lengths"].sum())
    rows: Rows = {}
    empty = empty_rows(task, 0)
    for name, shape in _shapes(task, state_size).items():
        expected = (steps, *shape)
        if name not in arrays:
            raise DataError(f"{path}: column {name!r} has nothing, expected {expected}. The file is damaged.")
        column = arrays[name]
        if column.shape != expected:
            raise DataError(
                f"{path}: column {name!r} has shape {column.shape}, expected {expected}. The file is damaged."
            )
        rows[name] = column.astype(empty[name].dtype, copy=False)  # texts do not tell types
    _check_numbers(path, task, rows)
    if state_size != task.state_size:  # nobody needs it, see `check_fits`
        for name in ROW_COLUMNS:
            rows[name] = np.zeros((steps, task.state_size), np.float32)
    return arrays["lengths"], rows


def _check_numbers(path: Path, task: Task, rows: Rows) -> None:
    """Cells of absent agents mean nothing, whatever stands there."""
    for k, kind in enumerate(task.kinds):
        here, after = rows["present"][:, kind.seats], rows["new_alive"][:, kind.seats]
        actions = rows[f"actions.{k}"][here]
        _check_finite(path, f"obs.{k}", rows[f"obs.{k}"][here])
        _check_finite(path, f"actions.{k}", actions)
        _check_finite(path, f"new_obs.{k}", rows[f"new_obs.{k}"][after])
        # Choices are used as indices later: what is out of bounds would be read somewhere else.
        choices = list(kind.columns.choices)
        table = actions.reshape(len(actions), -1)[:, choices]
        sizes = np.array([kind.columns.sizes[choice] for choice in choices], np.int64)
        if ((table < 0) | (table >= sizes)).any():
            raise DataError(f"{path}: column 'actions.{k}' holds actions outside of {kind.action_space}.")
        if kind.legal_width and not all_legal(kind, rows[f"legal.{k}"][here], actions):
            raise DataError(f"{path}: column 'actions.{k}' holds actions that the mask beside them forbids.")
    for name in ("rewards", *ROW_COLUMNS):
        _check_finite(path, name, rows[name])


def all_legal(kind: AgentType, legal: Bools, actions: Array) -> bool:
    """Whether every stored action is allowed by its mask."""
    table = actions.reshape(len(actions), -1).astype(np.int64)
    for column, options in kind.columns.options_of(legal):
        allowed = np.take_along_axis(options, table[:, [column]], axis=1)
        if not allowed.all():
            return False
    return True


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
    lengths = [len(rows["rewards"]) for rows in episodes]
    try:
        columns = joined(episodes)
    except (KeyError, ValueError) as error:
        raise DataError(f"{path}: its episodes do not fit together ({error}). Record them again.") from error
    return {"lengths": np.array(lengths, np.int64), **columns}


def _kind_columns(task: Task) -> list[tuple[str, int]]:
    return [(name, k) for name in KIND_COLUMNS for k in range(len(task.kinds))]


def _shapes(task: Task, state_size: int) -> dict[str, tuple[int, ...]]:
    """Of one row of every column, in the order in which files hold them."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, k in _kind_columns(task):
        kind = task.kinds[k]
        of_agent = {"obs": (kind.obs_width,), "actions": kind.action_shape, "legal": (kind.legal_width,)}
        shapes[f"{name}.{k}"] = (kind.size, *of_agent[name.removeprefix("new_")])
    for name in SEAT_COLUMNS:
        shapes[name] = (task.num_seats,)
    for name in ROW_COLUMNS:
        shapes[name] = (state_size,)
    return shapes
