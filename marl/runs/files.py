"""The files of a run directory: params, one result per line, a table, TensorBoard events, a learning curve.

``result.json`` is the truth; ``progress.csv`` and the curve can be made from it at any time.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import yaml

from marl.errors import ConfigError, UserError
from marl.inputs import parse_json, read_text
from marl.runs.media import encoded, pixels
from marl.runs.pictures import draw_or_warn
from marl.storage import append_to, make_folder, write_atomically

if TYPE_CHECKING:
    from marl.runs.tensorboard import Events

Scalar: TypeAlias = str | int | float | bool | None
Result: TypeAlias = Mapping[str, Any]


class RunFiles:
    """Writes and reads the files of one run; nothing is touched before the first write. ``events``: also TensorBoard's."""

    def __init__(self, directory: Path, events: bool = True) -> None:
        self.directory = directory
        self._with_events = events
        self._columns: list[str] = []  # of progress.csv; empty until the first write
        self._events: Events | None = None
        self._purge_step: int | None = None

    def write_params(self, params: Mapping[str, Any]) -> None:
        """``params.json`` and ``params.yaml``, the same content twice; infinities stay infinities here."""
        plain = to_plain(params)
        write_atomically(self.directory / "params.json", json.dumps(plain, indent=2) + "\n")
        write_atomically(self.directory / "params.yaml", yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))

    def write_population(self, population: Mapping[str, Any] | None) -> None:
        """``population.json``: members, where they come from, what they earned against each other; None before that."""
        file = self.directory / "population.json"
        if population is None:
            file.unlink(missing_ok=True)
        else:
            write_atomically(file, json.dumps(to_plain(population), indent=1) + "\n")

    def append(self, result: Result) -> Result:
        """Add one iteration's result to ``result.json``, ``progress.csv`` and the TensorBoard events.

        Pictures in ``episode_media`` go to files of their own; ``result.json`` names these. Returns what stands there.
        """
        plain: dict[str, Any] = to_plain(self._with_media_as_files(result), finite=True)
        if not self._columns:
            self._rewrite(self.results())
        append_to(self._result_file, json.dumps(plain) + "\n")
        self._append_row(plain)
        if self._with_events:
            self._append_events(plain)
        return plain

    def write_image(self, name: str, picture: Any, step: int, number: int = 0) -> str:
        """Keep a picture or a film (see ``media.pixels``) in ``media/`` and show it in TensorBoard, if written, by its name.

        Gives the file's path inside the run directory, such as ``media/board_2000.png`` for step 2000; further pictures of
        one name and step get the ``number`` at the end. Results do this by themselves: put
        ``{"board": [picture, ...]}`` into ``result["episode_media"]`` and hand the result to ``append``.
        """
        shown = pixels(name, picture)
        ending, content = encoded(shown)
        # The name is the user's or his env's: as a file name it must not lead out of the folder.
        stem, tag = f"{safe_name(name, empty='picture')}_{step}", name
        if number:
            stem, tag = f"{stem}_{number}", f"{name}/{number}"
        place = f"media/{stem}.{ending}"
        make_folder(self.directory / "media")
        write_atomically(self.directory / place, content)
        if self._with_events:
            self._writer.add_image(tag, shown.shape[-3:], content, step)
        return place

    def _with_media_as_files(self, result: Result) -> Result:
        media = result.get("episode_media")
        if not isinstance(media, Mapping) or not media:
            return result
        step = _step_of(result)
        named: dict[str, list[str]] = {}
        for name, pictures in media.items():
            if not isinstance(pictures, list | tuple):
                pictures = [pictures]
            named[name] = []
            for number, picture in enumerate(pictures):
                place = self.write_image(name, picture, step, number)
                named[name].append(place)
        return {**result, "episode_media": named}

    def resume_at(self, iteration: int) -> None:
        """Forget the results after this iteration, and a line that a kill left half-written."""
        self.close()
        kept = []
        last_step = -1
        for result in self.results():
            if result.get("training_iteration", 0) <= iteration:
                kept.append(result)
                last_step = max(last_step, _step_of(result))
        self._rewrite(kept)
        # TensorBoard drops the events of earlier files from this step on.
        self._purge_step = last_step + 1

    def results(self) -> list[dict[str, Any]]:
        """All results written so far; a half-written last line is left out."""
        if not self._result_file.exists():
            return []
        try:
            lines = read_text(self._result_file, errors="replace").split("\n")
        except OSError as error:
            raise UserError(f"{self._result_file} cannot be read: {error}. Take away what is there.") from error
        found = []
        for number, line in enumerate(lines, start=1):
            try:
                result = parse_json(line)
                if not isinstance(result, dict):
                    raise ValueError(f"a {type(result).__name__} instead of an object")
            except ValueError as error:
                if number == len(lines):
                    break  # a kill in the middle of a line, or the end of a file that ends with a line
                raise UserError(
                    f"{self._result_file}, line {number}: not a JSON result ({error}). Mend or delete that line."
                ) from error
            found.append(result)
        return found

    def draw_curve(self, path: str | Path = "learning_curve.png") -> Path | None:
        """Draw the rewards over env steps, into the run directory by default. None, and a warning, where that fails."""
        from marl.runs.curve import draw_rewards

        results, place = self.results(), self.directory / path
        return draw_or_warn(place, lambda: draw_rewards(results, title=self.directory.name, path=place))

    def close(self) -> None:
        """Finish the TensorBoard file; a later ``append`` starts a new one."""
        if self._events is not None:
            events, self._events = self._events, None
            events.flush()

    @property
    def _result_file(self) -> Path:
        return self.directory / "result.json"

    def _rewrite(self, results: list[dict[str, Any]]) -> None:
        if self._result_file.exists():
            lines = [json.dumps(result) + "\n" for result in results]
            write_atomically(self._result_file, "".join(lines))
        self._columns = []
        self._rewrite_table(results)

    def _rewrite_table(self, results: list[dict[str, Any]]) -> None:
        rows = [table_row(result) for result in results]
        # In the order in which they first appeared; older columns keep their places.
        columns = dict.fromkeys(self._columns)
        for row in rows:
            columns.update(dict.fromkeys(row))
        self._columns = list(columns)
        table = self.directory / "progress.csv"
        if rows:
            cells = [self._aligned(row) for row in rows]
            write_atomically(table, _csv([self._columns, *cells]))
        else:
            table.unlink(missing_ok=True)

    def _append_row(self, result: Result) -> None:
        row = table_row(result)
        if not row.keys() <= set(self._columns):
            self._rewrite_table(self.results())  # new keys: every row gets the longer header
            return
        append_to(self.directory / "progress.csv", _csv([self._aligned(row)]))

    def _aligned(self, row: Mapping[str, Scalar]) -> list[Scalar]:
        return [row.get(column) for column in self._columns]

    @property
    def _writer(self) -> Events:
        """TensorBoard's file, begun when it is first needed."""
        if self._events is None:
            from marl.runs.tensorboard import Events

            # TensorBoard reads files in the order of their names, which begin with the second in which they were opened.
            opened = [int(path.name.split(".")[3]) for path in self.directory.glob("events.out.tfevents.*")]
            newest = max(opened, default=-1)
            # A file of the distant future, by a clock that was wrong, is not waited for.
            while int(time.time()) <= newest <= int(time.time()) + 1:
                time.sleep(0.05)
            self._events = Events(self.directory, self._purge_step)
            self._purge_step = None
        return self._events

    def _append_events(self, result: Result) -> None:
        events, step = self._writer, _step_of(result)
        for tag, value in table_row(result).items():
            # A bool is an int to Python, but no curve.
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            events.add_scalar(tag, value, step)
        for tag, numbers in histograms(result):
            events.add_histogram(tag, numbers, step)
        events.flush()


def to_plain(value: Any, *, finite: bool = False) -> Any:
    """The value as JSON knows it: numpy becomes Python, keys become text, unknown things become their ``str``.

    With ``finite`` NaN and the infinities become None, so that any JSON reader takes the text.
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        plain: dict[str, Any] = {}
        for key, item in value.items():
            plain[str(key)] = to_plain(item, finite=finite)
        return plain
    if isinstance(value, list | tuple | set | frozenset):
        items = [to_plain(item, finite=finite) for item in value]
        if isinstance(value, set | frozenset):
            items.sort(key=str)  # sets have no order, files should
        return items
    return _plain_scalar(value, finite)


def _plain_scalar(value: Any, finite: bool) -> Scalar:
    if value is None or isinstance(value, bool):
        return value
    # Children of float and int, such as enums, become what they derive from.
    if isinstance(value, int):
        return int(value)
    if not isinstance(value, float):
        return str(value)
    number = float(value)
    if finite and not math.isfinite(number):
        return None
    return number


def _step_of(result: Result) -> int:
    return int(result.get("timesteps_total") or 0)


def table_row(result: Result) -> dict[str, Scalar]:
    """The result's scalars under keys joined by '/'; lists and the run's ``config`` are left out."""
    row = {}
    for path, value in _measured(result):
        if not isinstance(value, list | tuple):
            row[path] = value
    return row


def histograms(result: Result) -> Iterator[tuple[str, list[float]]]:
    """The number lists below any ``hist_stats``, and single errors of training batches, without nulls."""
    for path, value in _measured(result):
        if not isinstance(value, list) or not _is_histogram(path):
            continue
        numbers: list[float] = []
        for item in value:
            if isinstance(item, int | float):
                numbers.append(item)
        if numbers:  # TensorBoard refuses an empty one
            yield path, numbers


def _is_histogram(path: str) -> bool:
    *blocks, name = path.split("/")
    return "hist_stats" in blocks or name == "td_error"


def _measured(result: Result) -> Iterator[tuple[str, Any]]:
    """All values with their keys joined by '/'; the scenario's own numbers are no measurements."""
    without_config = dict(result)
    without_config.pop("config", None)
    return _leaves(without_config, "")


def _leaves(tree: Result, prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{path}/")
        else:
            yield path, value


def _csv(rows: Iterable[Iterable[Scalar]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def run_name(algo: str, env: str, trial_id: str, index: int, params: Mapping[str, object], now: datetime) -> str:
    """``QMIX_two_step_game_e0872_00000_seed=0_2026-11-16_02-30-00``: who, where, which trial, how, when.

    Of the env's name the part after the last '/' or ':' stays, so ``pettingzoo:mpe2/simple_spread_v3``
    becomes ``simple_spread_v3``; of a param's dotted key the last word.
    """
    env_name = re.split(r"[/:]", env.rstrip("/:"))[-1]
    words = [safe_name(algo).upper(), safe_name(env_name), safe_name(trial_id, empty="run"), f"{index:05d}"]
    if params:
        settings = []
        for key, value in params.items():
            _, _, last_word = key.rpartition(".")
            settings.append(f"{last_word}={value}")
        words.append(safe_name(",".join(settings)))
    words.append(now.strftime("%Y-%m-%d_%H-%M-%S"))
    return "_".join(words)


def safe_name(text: str, empty: str = "env") -> str:
    """The text as a file name that needs no quotes in a shell, at most 60 characters."""
    # Also no dot or dash in front: hidden files, and what a command would take for an option.
    safe = re.sub(r"[^\w.,=+-]+", "_", text, flags=re.ASCII).strip("_.-")
    return safe[:60] or empty


def new_run_directory(local_dir: Path, experiment: str, name: str) -> Path:
    """Create ``local_dir/experiment/name``; a taken name gets ``_2``, ``_3``, ... at its end."""
    parent = local_dir.expanduser() / safe_name(experiment, empty="default")
    try:
        return make_new_folder(parent / name)
    except OSError as error:
        raise ConfigError(
            f"cannot create a run directory in {parent}: {error.strerror}. Choose another place with "
            "--local-dir or MARL_RESULTS_DIR."
        ) from error


def make_new_folder(wanted: Path) -> Path:
    """Create a folder, and those above it; a taken name gets ``_2``, ``_3``, ... at its end."""
    # Those above first: where one of them is a file or a link to nowhere, no other name would help.
    wanted.parent.mkdir(parents=True, exist_ok=True)
    folder = wanted
    number = 1
    while True:
        # Trying to make it, and not looking first: several processes may begin at once, and each needs a name of its own.
        with suppress(FileExistsError):
            folder.mkdir()
            return folder
        number += 1
        folder = wanted.with_name(f"{wanted.name}_{number}")
