"""Whether a run may go on from a checkpoint: keys of the scenario that must not change in between.

Whether the files themselves are intact is verified in ``checkpoint.py`` (``read_part``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marl.algos.family import ALGOS
from marl.config import Config
from marl.envs.external.limits import Limits
from marl.envs.external.server_config import ServerConfig
from marl.errors import CheckpointError
from marl.old_names import with_current_names
from marl.policies.config import ExplorationConfig, ModelConfig
from marl.populations.config import PopulationConfig
from marl.rollout.config import EvaluationConfig
from marl.runs.old_defaults import with_old_defaults
from marl.scenario.config import Scenario
from marl.scenario.describe import can_be_replayed, to_plain

SERVER_KEYS = [f"external.{key}" for key in (*ServerConfig.model_fields, *Limits.model_fields)]
FREE = frozenset(
    {
        *SERVER_KEYS,
        "name", "stop", "goal", "evaluation", "exploitability", "checkpoint_freq", "keep_checkpoints", "keep_resumable",
        "pool", "collection", "address", "ray_num_cpus", "num_cpus_per_worker", "num_gpus_per_worker",
        "custom_resources_per_worker", "recreate_failed_workers", "load", "check_bounds", "env_timeout_s", "device",
        "num_gpus", "torch_threads", "imports", "loggers",
        "multiagent.policies_to_train",
        "algo.lr", "algo.lr_schedule", "algo.grad_clip", "algo.entropy_coeff", "algo.entropy_coeff_schedule", "algo.kl_target",
        "num_learners", "input", "output", "callbacks", "log_sys_usage", "algo.full_td_error", "log_level",
        "explore", "create_env_on_driver", "record_env",
        "render_env",
    }
)  # fmt: skip
"""Keys that may change; everything else decides what the saved numbers mean."""


def check_same(folder: Path, saved: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Refuse to go on where a key changed that the saved state depends on; a new name for the same thing is no change."""
    saved = with_new_keys(with_old_defaults(with_current_names(saved)))
    here = with_current_names(here)
    changed = []
    for key in _differences(saved, here):
        block = key.split(".")[0]
        if key not in FREE and block not in FREE:
            changed.append(f"{key} ({_at(saved, key)!r} -> {_at(here, key)!r})")
    if changed:
        shown = ", ".join(changed[:4])
        raise CheckpointError(
            f"{folder} cannot be continued with other values of {shown}. Keep them as they were, or start a new run from its "
            f"weights with `load: {{POLICY: {folder}}}`."
        )


def with_new_keys(saved: Mapping[str, Any]) -> dict[str, Any]:
    """A stored scenario with the keys that have come since it was written: it ran as their defaults do."""
    full = _filled(saved, Scenario)
    sections: dict[str, type[Config]] = {
        "model": ModelConfig,
        "evaluation": EvaluationConfig,
        "exploration_config": ExplorationConfig,
        "population": PopulationConfig,
    }
    for name, section in sections.items():
        if isinstance(full.get(name), Mapping):
            full[name] = _filled(full[name], section)
    algo = full.get("algo")
    if isinstance(algo, Mapping) and algo.get("name") in ALGOS:
        preset = ALGOS[algo["name"]]
        full["algo"] = _filled({**to_plain(preset.defaults), **algo}, preset.family.config)
    return full


def _filled(saved: Mapping[str, Any], config: type[Config]) -> dict[str, Any]:
    full = dict(saved)
    for key, field in config.model_fields.items():
        if key not in full and not field.is_required():
            full[key] = to_plain(field.get_default(call_default_factory=True))
    return full


def _differences(a: Any, b: Any, path: str = "") -> list[str]:
    """Dotted names of the keys that differ, at most three words deep: `FREE` names none deeper."""
    both_blocks = isinstance(a, Mapping) and isinstance(b, Mapping)
    if both_blocks and path.count(".") < 2:
        return _differences_inside(a, b, path)
    if a == b:
        return []
    # Python objects are given anew by the user, who cannot make equal ones.
    if not can_be_replayed(a) or not can_be_replayed(b):
        return []
    return [path]


def _differences_inside(a: Mapping[str, Any], b: Mapping[str, Any], path: str) -> list[str]:
    found = []
    for key in dict.fromkeys([*a, *b]):
        inside = str(key)
        if path:
            inside = f"{path}.{key}"
        found += _differences(a.get(key), b.get(key), inside)
    return found


def _at(tree: Any, path: str) -> Any:
    for key in path.split("."):
        if not isinstance(tree, Mapping):
            return None
        tree = tree.get(key)
    return tree
