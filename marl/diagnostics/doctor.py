"""Whether this installation works (``marl doctor``): packages and their versions, torch, a place for results, a short run.

Every finding is ok, a warning (something optional is missing) or an error, with what to do about it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from marl.runs.directories import default_results

Verdict: TypeAlias = Literal["ok", "warning", "error"]
NAME = re.compile(r"[A-Za-z0-9_.-]+")
EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    verdict: Verdict
    detail: str

    def __str__(self) -> str:
        return f"{self.verdict:<8} {self.what}: {self.detail}"


def examine(with_ray: bool = True) -> Iterator[Finding]:
    """All findings, one by one; ``with_ray`` also plays on a Ray worker, which takes some seconds."""
    verdict: Verdict = "ok" if sys.version_info >= (3, 11) else "error"
    yield Finding("Python", verdict, f"{platform.python_version()} (3.11 or newer)")
    yield from packages()
    yield _tried("torch", _torch)
    yield _tried("results", _results)
    yield _tried("a run in this process", lambda: _run(0))
    if with_ray:
        yield _tried("a run on a Ray worker", lambda: _run(1))


def packages() -> Iterator[Finding]:
    """What the installed package asks for: core packages have to be there, those of extras may be."""
    try:
        asked = importlib.metadata.requires("marl") or []
    except importlib.metadata.PackageNotFoundError:
        yield Finding("marl", "error", "is not installed; in the project's folder: pip install -c constraints.txt -e .")
        return
    missing: dict[str, list[str]] = {}
    for requirement in asked:
        extra = EXTRA.search(requirement)
        if extra is None:
            yield _core(requirement)
        elif extra[1] not in ("test", "docs") and not _has_all(requirement):
            # Users need no tests and no docs; what is left is what a command may ask for.
            wanted = re.split(r"[>=<;\s]", requirement)[0]
            missing.setdefault(extra[1], []).append(wanted)
    for extra_name, names in missing.items():
        remedy = f"in the project's folder: pip install -e '.[{extra_name}]'"
        yield Finding(f"extra {extra_name}", "warning", f"{', '.join(names)} not installed; {remedy}")


def _core(requirement: str) -> Finding:
    """A package that has to be there, and new enough."""
    name = _name(requirement)
    version = _version(name)
    if version is None:
        return Finding(name, "error", f"is missing. pip install '{requirement}'")
    least = re.search(r">=\s*([\d.]+)", requirement)
    if least is not None and numbers(version) < numbers(least[1]):
        return Finding(name, "error", f"{version} is too old. pip install '{requirement}'")
    return Finding(name, "ok", version)


def _has_all(requirement: str) -> bool:
    """Whether a package is there, and what its own extras ask for: ``ray[tune]`` is more than Ray itself."""
    name = _name(requirement)
    if _version(name) is None:
        return False
    chosen = re.match(r"[\w.-]+\[([\w,-]+)\]", requirement)
    if chosen is None:
        return True
    extras = chosen[1].split(",")
    needed: list[str] = []
    for asked in importlib.metadata.requires(name) or []:
        wanted = EXTRA.search(asked)
        if wanted is not None and wanted[1] in extras:
            needed.append(_name(asked))
    return None not in map(_version, needed)


def _name(requirement: str) -> str:
    found = NAME.match(requirement)
    assert found is not None  # a requirement begins with a name
    return found[0]


def _version(name: str) -> str | None:
    """The installed one; None where there is none."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def numbers(version: str) -> tuple[int, ...]:
    """``2.13.0+cpu`` is (2, 13, 0)."""
    release = version.split("+")[0]
    parts = re.findall(r"\d+", release)
    return tuple(map(int, parts[:3]))


def _tried(what: str, look: Callable[[], str]) -> Finding:
    """Whatever goes wrong here is what the doctor is for."""
    try:
        return Finding(what, "ok", look())
    except Exception as error:
        told = " ".join(str(error).split())  # in one line, as torch and Ray write whole pages
        return Finding(what, "error", f"{type(error).__name__}: {told}")


def _torch() -> str:
    import torch

    # Broken builds of torch import well and fail, or give nonsense, when a gradient is taken.
    weight = torch.ones(2, requires_grad=True)
    (weight * weight).sum().backward()  # type: ignore[no-untyped-call]
    if weight.grad is None or weight.grad.tolist() != [2.0, 2.0]:
        raise RuntimeError(f"the gradient of x*x at 1 came out as {weight.grad}; reinstall torch")
    where = "no GPU"
    if torch.cuda.is_available():
        where = torch.cuda.get_device_name()
    return f"{torch.get_num_threads()} threads, {where}"


def _results() -> str:
    place = default_results().expanduser()
    if place.exists() and not place.is_dir():
        raise NotADirectoryError(f"{place} is a file; set MARL_RESULTS_DIR to a folder")
    # Looking must not leave a folder behind, so the nearest one that is there is tried.
    there = next(folder for folder in (place, *place.parents) if folder.is_dir())
    try:
        with tempfile.NamedTemporaryFile(dir=there):
            pass
    except OSError as error:
        raise PermissionError(
            f"{place} cannot be written to ({error.strerror}); set MARL_RESULTS_DIR to a folder that can"
        ) from None
    return f"{place} can be written to"


def _run(workers: int) -> str:
    """Two iterations of the two-step game, with a checkpoint that is read back."""
    # Here, so that the doctor can still say what is wrong where torch cannot be imported.
    from marl.training.trainer import Trainer

    keys = {"num_workers": workers, "train_batch_size": 64, "sgd_minibatch_size": 32, "evaluation": {"interval": 0}}
    with tempfile.TemporaryDirectory() as folder, Trainer("ppo", env="two_step_game", config=keys) as trainer:
        trainer.train()
        saved = trainer.save(Path(folder) / "checkpoint")
        trainer.restore(saved)
        steps = trainer.train()["timesteps_total"]
    return f"trained, saved and restored ({steps} env steps)"
