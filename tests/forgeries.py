"""Files of a stranger: checkpoints, exports, recordings and searches that were changed by hand, with hashes that fit.

A forged checkpoint is a copy of a real one: ``forge`` changes the scenario in its part ``run``, and writes the new hash into
the manifest, so nothing but the content can give it away.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marl.data.seal import SEAL, sealed
from marl.runs.checkpoint import find_checkpoint
from marl.runs.manifest import MANIFEST
from marl.scenario.load import apply
from marl.training.trainer import Trainer

TINY: dict[str, Any] = {
    "train_batch_size": 16,
    "sgd_minibatch_size": 16,
    "num_sgd_iter": 1,
    "fcnet_hiddens": [4],
    "stop": {"training_iteration": 3},
    "evaluation": {"interval": 0},
    "log_sys_usage": False,
}


def real_run(directory: Path, env: str = "matrix_game", algo: str = "ppo", **keys: Any) -> Path:
    """A run directory with one iteration and one checkpoint, as its owner leaves it; nothing in it is forged."""
    with Trainer(algo, env=env, config={**TINY, **keys}, directory=directory) as trainer:
        trainer.train()
        trainer.save()
    return directory


def forge(run: Path, copy: Path, **changes: Any) -> Path:
    """A copy of a run whose newest checkpoint has another scenario; keys may be dotted (``**{"algo.lr": 1}``)."""
    shutil.copytree(run, copy)
    folder = find_checkpoint(copy)

    def change(part: dict[str, Any]) -> None:
        for key, value in changes.items():
            apply(part["scenario"], key, value)

    edit_part(folder, "run", change)
    return copy


def edit_part(folder: Path, part: str, change: Any) -> None:
    """Change the JSON of a checkpoint's part by a function, and let the manifest vouch for it."""
    file = folder / f"{part}.json"
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    rehash(folder)


def rehash(folder: Path) -> None:
    """Write the hashes of the files as they are now into the manifest of a checkpoint."""
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in manifest["files"]}
    write_sealed(folder / MANIFEST, manifest)


def write_sealed(file: Path, content: Mapping[str, Any]) -> None:
    """A small JSON file whose seal fits its content, as a forger would leave it."""
    file.write_text(json.dumps(sealed({key: value for key, value in content.items() if key != SEAL})))


def forge_export(export: Path, copy: Path, changes: Mapping[str, Any]) -> Path:
    """A copy of one exported policy whose recipe was changed: ``{"scripted": {"name": ...}}``."""
    shutil.copytree(export, copy)
    file = copy / "policy.json"
    about = json.loads(file.read_text())
    about["recipe"] |= changes
    write_sealed(file, about)
    return copy


def trap(folder: Path, module: str, canary: Path) -> Path:
    """A Python file that writes ``canary`` when it is imported, with a class, a function and an env id in it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{module}.py"
    file.write_text(
        f"""from pathlib import Path

Path({str(canary)!r}).write_text("imported")


class Env:
    def __init__(self, *args, **keys):
        Path({str(canary)!r}).write_text("built")


def call(*args, **keys):
    Path({str(canary)!r}).write_text("called")
"""
    )
    return file
