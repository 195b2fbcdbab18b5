"""Keys of RLlib that say in one word what ours say in several. They are read as ours; a run's files hold ours.

All other old keys are refused with the way to go on (``rllib_keys.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marl.errors import ConfigError

WAIT = "remote_env_batch_wait_ms"
OWN_WORKERS = "remote_worker_envs"


def in_our_words(keys: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The same keys, with ``monitor`` and ``remote_worker_envs`` in our words."""
    said = dict(keys)
    if "monitor" in said:
        _rename(said, "monitor", "record_env", where)
    if OWN_WORKERS in said or WAIT in said:
        _own_workers(said, where)
    return said


def _rename(said: dict[str, Any], theirs: str, ours: str, where: str) -> None:
    if ours in said:
        raise ConfigError(f"{where}: {theirs} and {ours} say the same. Keep {ours} alone.")
    said[ours] = said.pop(theirs)


def _own_workers(said: dict[str, Any], where: str) -> None:
    """Every copy of the env in a process of its own is as many workers with one copy each. Asynchronous collection takes
    what is ready, so a slow copy does not hold up the others."""
    wanted, wait = said.pop(OWN_WORKERS, False), said.pop(WAIT, 0)
    if not isinstance(wanted, bool):
        raise ConfigError(f"{where}: {OWN_WORKERS} is {wanted!r}, expected true or false.")
    if wait != 0:
        raise ConfigError(
            f"{where}: {WAIT} is {wait!r}, but copies with a worker of their own decide by themselves, and nobody waits for "
            "a batch of them. Drop it; collection: sync waits for all copies."
        )
    if not wanted:
        return
    workers, copies = said.get("num_workers", 0), said.get("num_envs_per_worker", 1)
    if not isinstance(workers, int) or not isinstance(copies, int):
        return  # told with the type that is expected when the keys are checked
    if workers < 0 or copies < 1:
        return  # told by the key that is out of bounds, which the product would hide
    said["num_workers"] = max(workers, 1) * copies
    said["num_envs_per_worker"] = 1
    said.setdefault("collection", "async")
