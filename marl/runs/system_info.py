"""On what a run runs: the machine, its load, the versions of the code."""

from __future__ import annotations

import os
import platform
import secrets
import socket
import subprocess
from collections.abc import Mapping
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

    found: dict[str, float] = {}
    # Without a driver even counting the devices may warn.
    if not torch.cuda.is_available():
        return found
    for index in range(torch.cuda.device_count()):
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
    """Commit of the repository in which the run was started, and whether tracked files differ from it; None outside of one.

    The repository may be a stranger's, whose settings could have git start programs. So git is asked with none of them:
    see ``NEUTRAL`` and ``_without_filters``.
    """
    # Once per process (`cache`): a run that changes its own files should not be told another commit half-way.
    where = str(directory or Path.cwd())
    answer = _git(where, {}, "rev-parse", "--verify", "HEAD")
    if answer is None or answer.returncode != 0:
        return None
    commit = answer.stdout.strip()
    filters = _without_filters(where)
    if filters is None:
        return {"commit": commit, "changed": True}  # nobody can tell
    status = _git(where, filters, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules")
    changed = status is not None and bool(status.stdout.strip())
    return {"commit": commit, "changed": changed}


NEUTRAL = {
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "core.pager": "cat",
    "core.sshCommand": "false",
    "protocol.allow": "never",  # objects that are missing are not fetched from anywhere
}
"""Settings of git that start programs or reach out, switched off."""
NEUTRAL_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",  # somebody else may be at work there
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}


def _without_filters(where: str) -> dict[str, str] | None:
    """Settings that switch off the filters of a repository: programs through which git would read changed files.

    None where git does not say which there are.
    """
    listed = _git(where, {}, "config", "-z", "--name-only", "--get-regexp", r"^filter\.")
    if listed is None or listed.returncode > 1:  # 1: there are none
        return None
    settings = {}
    for setting in sorted(listed.stdout.split("\0")):
        name = setting.rpartition(".")[0]  # filter.NAME, and NAME may hold dots itself
        if not name:
            continue
        settings[f"{name}.clean"] = ""
        settings[f"{name}.smudge"] = ""
        settings[f"{name}.process"] = ""
        settings[f"{name}.required"] = "false"
    return settings


def _git(where: str, settings: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str] | None:
    """Ask git; None where it is not there or takes too long. Settings go by the environment, as names may hold a '='."""
    environment = dict(NEUTRAL_ENVIRONMENT)
    for key, value in os.environ.items():
        if not key.startswith("GIT_"):  # these may name another repository, or programs
            environment.setdefault(key, value)
    environment["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, value) in enumerate(settings.items()):
        environment[f"GIT_CONFIG_KEY_{number}"] = key
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    command = ["git", "--no-pager", "-C", where]
    for key, value in NEUTRAL.items():
        command += ["-c", f"{key}={value}"]
    for folder in _trusted_folders():
        command += ["-c", f"safe.directory={folder}"]
    try:
        return subprocess.run(
            [*command, *words], capture_output=True, encoding="utf-8", errors="surrogateescape", timeout=5, check=False,
            stdin=subprocess.DEVNULL, env=environment,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired, ValueError):  # no git here, or a huge repository
        return None


@cache
def _trusted_folders() -> list[str]:
    """``safe.directory`` of the user's own settings: which repositories of other owners git may look at."""
    command = ["git", "config", "--global", "--get-all", "safe.directory"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=5, check=False, stdin=subprocess.DEVNULL, cwd=os.sep
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return []
    return answer.stdout.splitlines()


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
    given = os.environ.get("MARL_EXPERIMENT_ID")
    if given:
        return given
    return secrets.token_hex(8)
