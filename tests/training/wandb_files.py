"""What a run of wandb wrote offline: its file of records is a LevelDB log of protobufs behind a header of seven bytes."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path
from typing import Any

HEADER, BLOCK, RECORD = 7, 32 * 1024, 7


def records(file: Path) -> list[Any]:
    from wandb.proto import wandb_internal_pb2

    content = file.read_bytes()
    assert content[:4] == b":W&B"
    found, place, whole = [], HEADER, b""
    while place + RECORD <= len(content):
        left = BLOCK - place % BLOCK
        if left < RECORD:  # what is too short for a record is padding
            place += left
            continue
        _, length, kind = struct.unpack("<IHB", content[place : place + RECORD])
        whole += content[place + RECORD : place + RECORD + length]
        place += RECORD + length
        if kind in (1, 4):  # complete, or the last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            found.append(record)
            whole = b""
    return found


def _finished(file: Path) -> list[Any]:
    """The records of a run that has ended: wandb's own process writes the last of them after ``finish`` has returned."""
    for _ in range(600):
        found = records(file)
        if found and found[-1].HasField("exit"):
            return found
        time.sleep(0.1)
    raise AssertionError(f"{file} does not end")


class Offline:
    """All that one ``offline-run-*`` folder says."""

    def __init__(self, folder: Path) -> None:
        (file,) = folder.glob("run-*.wandb")
        self.history: list[dict[str, Any]] = []
        self.config: dict[str, Any] = {}
        for record in _finished(file):
            if record.HasField("run"):
                self.id, self.project, self.name = record.run.run_id, record.run.project, record.run.display_name
                self.group = record.run.run_group
                for item in record.run.config.update:
                    self.config[item.key or ".".join(item.nested_key)] = json.loads(item.value_json)
            if record.HasField("history"):
                row = {}
                for item in record.history.item:
                    row["/".join(item.nested_key) or item.key] = json.loads(item.value_json)
                self.history.append(row)


def offline_runs(directory: Path) -> list[Offline]:
    return [Offline(folder) for folder in sorted((directory / "wandb").glob("offline-run-*"))]
