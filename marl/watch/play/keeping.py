"""Finished games as recordings to learn from: ``plays/ENV/GAME/trajs_0.npz`` beside ``trajectories.json`` and ``play.json``.

Rows of people have the policy ``human``. ``people/`` beside it holds the same game with the decisions of people alone, for
those who want to learn from nobody else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from marl.data.task import PolicyID
from marl.offline.manifest import write_manifest
from marl.offline.trajectories import Rows, file_name, is_over, rows_of, write_episodes
from marl.storage import make_folder, storing, write_atomically
from marl.watch.play.table import Table
from marl.watch.play.words import HUMAN

PLAYS = "plays"
ABOUT = "play.json"
_UNUSUAL = re.compile(r"[^\w.-]+")


def keep(table: Table, root: Path, name: str, about: Mapping[str, Any]) -> str | None:
    """Write a finished game below ``root``; returns its folder there. One that was cut off has no end to learn from."""
    batch = table.batch()
    rows = rows_of(batch, slice(0, table.steps), 0)
    if table.cut or not is_over(rows):
        return None
    policies = [*batch.policy_ids, HUMAN]
    seats = _seats_of_people(table)
    rows["policy"][seats] = len(policies) - 1
    place = Path(PLAYS) / slug(table.runner.env.name) / name
    home = root / place
    # Into a folder beside it first: readers see a whole game or none.
    half = home.with_name(f".{home.name}")
    with storing(home):
        make_folder(half / "people")
        _write(half, table, policies, rows)
        _write(half / "people", table, policies, _people_alone(rows, seats))
        write_atomically(half / ABOUT, json.dumps(dict(about), indent=1) + "\n")
        shutil.rmtree(home, ignore_errors=True)
        os.replace(half, home)
    return place.as_posix()


def slug(env: str) -> str:
    """An env's name as one of a folder."""
    return _UNUSUAL.sub("_", env).strip("._") or "env"


def _write(folder: Path, table: Table, policies: list[PolicyID], rows: Rows) -> None:
    config = table.seating.playable.setup.rollout.config
    write_manifest(folder, table.buffer.task, table.runner.env.name, policies, config.normalize_actions)
    write_episodes(folder / file_name(0), [rows])


def _seats_of_people(table: Table) -> Any:
    """``[T, A]``: where a person decided."""
    batch = table.buffer.batch()
    found = np.zeros(batch.present[:, 0].shape, bool)
    for step, names in enumerate(table.asked):
        for seat, agent in enumerate(names):
            found[step, seat] = agent in table.seating.people
    return found


def _people_alone(rows: Rows, people: Any) -> Rows:
    """The game as if only people had been there: nobody learns from seats that are empty."""
    alone = {name: column.copy() for name, column in rows.items()}
    for name in ("present", "alive", "terminateds", "truncateds"):
        alone[name] &= people
    # Who is there after a step is there before the next one; the last row has no next one.
    after = np.concatenate([people[1:], people[-1:]])
    for name in ("new_present", "new_alive"):
        alone[name] &= after
    alone["rewards"] = np.where(people, rows["rewards"], 0.0).astype(np.float32)
    return alone
