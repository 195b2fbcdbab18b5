"""Forgeries: a checkpoint or an export is changed on purpose and hashed anew, so that nothing looks damaged; then it is read.

Whatever stands in it, the command must neither write outside of the folder, nor start a program, nor open a connection, and it
has to end with a sentence instead of a traceback.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from marl.data.seal import SEAL, sealed
from siege.canary import Canary, home_of
from siege.child import run
from siege.ledger import CaseResult
from siege.mutate import Place, look, mutate, places, put
from siege.prey import CASE, Prey
from siege.verdict import complaint

# Things that can be imported and called: of marl itself, of the standard library, of what marl depends on.
CALLABLES = (
    "marl.runs.system_info:git", "marl.runs.system_info:_git", "marl:Trainer", "marl.run:execute", "marl.run:shutil.rmtree",
    "marl.runs.atomic:remove", "marl.runs.atomic:write_atomically", "marl.runs.files:RunFiles",
    "marl.runs.files:new_run_directory", "marl.runs.checkpoint:write_checkpoint", "marl.registry:load_object",
    "marl.registry:import_module", "marl.registry:importlib.import_module", "marl.runs.system_info:subprocess.run",
    "marl.runs.system_info:os.system", "marl.offline.manifest:replace", "marl.cli:main", "marl.training.store:Store.__init__",
    "marl.envs.registry:make", "os:system", "os:mkdir", "subprocess:run", "subprocess:check_output", "builtins:exec",
    "builtins:open", "shutil:rmtree", "pathlib:Path.write_text", "pickle:loads", "numpy:load", "torch:load", "runpy:run_path",
    "webbrowser:open",
    "socket:create_connection", "siege.forgery:Forgery", "antigravity:fly", "gymnasium:make", "marl.log:set_up",
)  # fmt: skip
PATHS = (
    "../outside",
    "../outside/x/y",
    "/tmp/marl_siege_outside",
    "~/../../outside",
    "home/../../outside",
    "http://127.0.0.1:9/x",
)
HOSTS = ("127.0.0.1:9", "auto", "ray://127.0.0.1:9", "localhost:6379", "[::1]:9")
PATH_KEYS = (
    "output",
    "input",
    "load",
    "address",
    "local_dir",
    "name",
    "directory",
    "env_config",
    "custom_model_config",
)
READERS = ("resume", "resume", "rollout", "exploit", "export", "crossplay", "load", "exported player")


class Forgery:
    """Preys whose files are forged; ``case`` forges a copy of one."""

    kind = "forgeries"

    def __init__(self, preys: Sequence[Prey]) -> None:
        self.preys = preys

    def case(self, number: int, draw: random.Random, folder: Path) -> CaseResult:
        prey = self.preys[number % len(self.preys)]
        inside = prey.copy(folder)
        (folder / "outside").mkdir()
        if draw.random() < 0.15:
            name, told = "load_policy", _forge_export(inside, draw)
        else:
            part, told = _forge_checkpoint(inside, draw)
            name = draw.choice(READERS if part in ("run", "policies") else ("resume",))
        canary = Canary(inside, prey.habits)
        ended = run(prey.command(name), inside, limits=CASE, environment=home_of(inside), at_start=canary.arm)
        text = complaint(ended)
        if text is None and any((folder / "outside").iterdir()):
            text = "canary: something was written outside"
        outcome = "refused" if ended.code == 2 else "stopped in time" if ended.overtime else "accepted, no harm"
        return CaseResult(self.kind, number, f"{prey.name}, {name}: {'; '.join(told)[:400]}", text, outcome=outcome)


def _forge_checkpoint(inside: Path, draw: random.Random) -> tuple[str, list[str]]:
    """Change a part of the newest checkpoint and vouch for it by a new manifest; gives the part and what was done."""
    folder = inside / "run" / "checkpoints" / "checkpoint_000008"
    if draw.random() < 0.2:
        file = draw.choice(sorted(folder.glob("*.safetensors")))
        told = _forge_arrays(file, draw)
    else:
        part = "run" if draw.random() < 0.6 else draw.choice(sorted(p.stem for p in folder.glob("*.json")))
        file = folder / f"{part}.json"
        told = _forge_json(file, draw, ("scenario",) if part == "run" and draw.random() < 0.8 else ())
    manifest = json.loads((folder / "manifest.json").read_text())
    if isinstance(manifest, dict) and isinstance(manifest.get("files"), dict) and file.name in manifest["files"]:
        manifest["files"][file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
    _write_sealed(folder / "manifest.json", manifest)
    return file.stem, [f"{file.name}: {text}" for text in told]


def _forge_export(inside: Path, draw: random.Random) -> list[str]:
    folder = draw.choice(sorted(path for path in (inside / "export").iterdir()))
    file = folder / "policy.json"
    if draw.random() < 0.3:
        told = _forge_arrays(folder / "weights.safetensors", draw)
        about = json.loads(file.read_text())
        about["sha256"] = hashlib.sha256((folder / "weights.safetensors").read_bytes()).hexdigest()
        _write_sealed(file, about)
        return told
    told = _forge_json(file, draw, ())
    _write_sealed(file, json.loads(file.read_text()))
    return told


def _write_sealed(file: Path, content: Any) -> None:
    """With a seal that fits, so that the content itself has to be judged."""
    if isinstance(content, dict):
        content = sealed({key: value for key, value in content.items() if key != SEAL})
    file.write_text(json.dumps(content))


def _forge_json(file: Path, draw: random.Random, below: Place) -> list[str]:
    tree = json.loads(file.read_text())
    manner = draw.choice(["values", "values", "names", "names", "paths"])
    if manner == "names":
        told = _hostile_names(tree, draw, below)
    elif manner == "paths":
        told = _hostile_paths(tree, draw, below)
    else:
        told = mutate(tree, draw, draw.choice([1, 1, 2, 4]), below)
    file.write_text(json.dumps(tree))
    return told


def _hostile_names(tree: Any, draw: random.Random, below: Place) -> list[str]:
    """Put the name of a function where the name of an env, a model, a mapper, ... could stand, with its arguments."""
    found = [(*below, *place) for place in places(look(tree, below))]
    named = [place for place in found if look(tree, place) is None or isinstance(look(tree, place), str)]
    likely = [place for place in named if str(place[-1]) in _NAMING]
    told = []
    if below and draw.random() < 0.5:  # a function as the env, called with the env's config
        scenario = look(tree, below)
        fitting = draw.choice(_CALLS), (draw.choice(CALLABLES), draw.choice(_ARGUMENTS))
        scenario["env"], scenario["env_config"] = draw.choice(fitting)
        return [f"env = {scenario['env']}({scenario['env_config']})"]
    for place in draw.sample(named, min(2, len(named))) + draw.sample(likely, min(2, len(likely))):
        put(tree, place, draw.choice(CALLABLES))
        told.append(f"{'.'.join(map(str, place))} = {look(tree, place)}")
    for place in found:
        if str(place[-1]).endswith("_config") and isinstance(look(tree, place), dict) and draw.random() < 0.5:
            put(tree, place, draw.choice(_ARGUMENTS))
    return told


_NAMING = (
    "env", "name", "algo", "policy_mapping_fn", "callbacks", "custom_model", "custom_preprocessor", "custom_action_dist",
    "custom_loss", "env_task_fn", "type", "kind", "oracle", "meta_solver", "acts", "output", "input",
)  # fmt: skip
_ARGUMENTS: tuple[dict[str, Any], ...] = (
    {"directory": "../outside"}, {"path": "../outside/x", "content": "x"}, {"where": "../outside", "words": "status"},
    {"command": "touch ../outside/x"}, {"args": ["touch", "../outside/x"]}, {"folder": "../outside/c", "parts": {}},
    {"config": {"env": "CartPole-v1"}, "directory": "../outside/t"}, {"file": "../outside/x", "mode": "w"},
)  # fmt: skip


_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (  # that would do harm, if they were made
    ("marl.runs.system_info:git", {"directory": "../outside"}),
    ("marl:Trainer", {"config": {"env": "CartPole-v1"}, "directory": "../outside/t"}),
    ("marl.runs.atomic:write_atomically", {"path": "../outside/x", "content": "x"}),
    ("marl.runs.files:new_run_directory", {"local_dir": "../outside", "experiment": "x", "name": "y"}),
    ("marl.registry:import_module", {"module_name": "antigravity", "what": "x"}),
    ("marl.play.write_export:export_checkpoint", {"path": "run", "folder": "../outside/e"}),
    ("os:makedirs", {"name": "../outside/d"}),
)


def _hostile_paths(tree: Any, draw: random.Random, below: Place) -> list[str]:
    found = [(*below, *place) for place in places(look(tree, below)) if str(place[-1]) in PATH_KEYS]
    told = []
    for place in draw.sample(found, min(3, len(found))):
        value: Any = draw.choice(HOSTS if place[-1] == "address" else PATHS)
        put(tree, place, {"default_policy": value} if place[-1] == "load" else value)
        told.append(f"{'.'.join(map(str, place))} = {value}")
    if "num_workers" in (scenario := look(tree, below)) and draw.random() < 0.3:
        scenario["env"] = "CartPole-v1"
    return told or mutate(tree, draw, 1, below)


def _forge_arrays(file: Path, draw: random.Random) -> list[str]:
    """Other shapes, types, names and numbers."""
    arrays = safetensors.numpy.load_file(file)
    name = draw.choice(sorted(arrays))
    array = arrays[name]
    manner = draw.choice(
        ["nan", "longer", "shorter", "flat", "scalar", "type", "huge", "negative", "gone", "renamed", "extra"]
    )
    if manner == "gone":
        del arrays[name]
    elif manner == "renamed":
        arrays[f"{name}x"] = arrays.pop(name)
    elif manner == "extra":
        arrays["extra/0"] = array
    else:
        arrays[name] = np.ascontiguousarray(_OTHER_ARRAYS[manner](array))
    safetensors.numpy.save_file(arrays, file)
    return [f"{name} {manner}"]


def _other_type(array: Any) -> Any:
    return array.astype(np.float64 if array.dtype != np.float64 else np.int8)


_OTHER_ARRAYS: dict[str, Any] = {
    "nan": lambda a: np.full(a.shape, np.nan, a.dtype) if a.dtype.kind == "f" else np.full(a.shape, -1).astype(a.dtype),
    "longer": lambda a: np.concatenate([a.reshape(-1), a.reshape(-1)]),
    "shorter": lambda a: a.reshape(-1)[: a.size // 2],
    "flat": lambda a: a.reshape(1, -1),
    "scalar": lambda a: a.reshape(-1)[0] if a.size else np.zeros((), a.dtype),
    "type": _other_type,
    "huge": lambda a: (np.ones(a.shape) * 1e30).astype(a.dtype) if a.dtype.kind == "f" else a + a.dtype.type(1),
    "negative": lambda a: (-np.abs(a.astype(np.float64)) - 1).astype(a.dtype),
}
