"""On what a run runs: the machine, its load, the versions of the code."""

from __future__ import annotations

import os
import platform
import secrets
import socket
import subprocess
from datetime import datetime
from functools import cache
from importlib import metadata
from pathlib import Path

import psutil

PACKAGES = ("marl", "torch", "numpy", "ray", "gymnasium", "pettingzoo")
UNROUTED = ("192.0.2.1", 9)  # reserved for documentation: nothing is sent there


class Usage:
    """Load of the machine in percent. The CPU's covers the time since the reading before."""

    def __init__(self) -> None:
        psutil.cpu_percent()  # the first reading means nothing

    def numbers(self) -> dict[str, float]:
        return {
            "cpu_util_percent": psutil.cpu_percent(),
            "ram_util_percent": psutil.virtual_memory().percent,
            **_gpus(),
        }


def _gpus() -> dict[str, float]:
    """Memory in use of each GPU that torch sees."""
    import torch

    found = {}
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free, total = torch.cuda.mem_get_info(index)
        found[f"gpu_{index}_ram_util_percent"] = 100.0 * (1.0 - free / total)
    return found


def whereabouts() -> dict[str, object]:
    """Fields of a result that say when, where and with which code it came about."""
    now = datetime.now()
    return {
        "date": now.strftime("%Y-%m-%d_%H-%M-%S"),
        "timestamp": int(now.timestamp()),
        "pid": os.getpid(),
        "hostname": platform.node(),
        "node_ip": node_ip(),
        "git": git(),
        "versions": versions(),
    }


@cache
def versions() -> dict[str, str | None]:
    """Python and the packages on which numbers depend; null where one is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


@cache
def git(directory: Path | None = None) -> dict[str, str | bool] | None:
    """Commit of the repository in which the run was started, and whether tracked files differ from it; None outside of one."""
    where = str(directory or Path.cwd())
    commit = _git(where, "rev-parse", "HEAD")
    if commit is None or commit.returncode != 0:
        return None
    status = _git(where, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit.stdout.strip(), "changed": status is not None and bool(status.stdout.strip())}


def _git(where: str, *words: str) -> subprocess.CompletedProcess[str] | None:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # somebody else may be at work there
    try:
        return subprocess.run(
            ["git", "-C", where, *words], capture_output=True, text=True, timeout=5, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):  # no git here, or a huge repository
        return None


@cache
def node_ip() -> str:
    """The address under which others reach this machine; 127.0.0.1 where it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(UNROUTED)  # chooses a route, sends nothing
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


@cache
def experiment_id() -> str:
    """One per process: shared by all runs of one command, such as several seeds, and kept by a run that is resumed.

    ``MARL_EXPERIMENT_ID`` replaces it, for commands that spread their runs over processes.
    """
    return os.environ.get("MARL_EXPERIMENT_ID") or secrets.token_hex(8)
