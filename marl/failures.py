"""What the machine says when it has no more to give, and what functions from outside raise, as errors to be understood."""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from marl.errors import ConfigError, OutOfMemoryError, StorageError, UserError, let_through
from marl.memory import free_memory, in_words

# torch has no class of its own for this on the CPU: "DefaultCPUAllocator: can't allocate memory: you tried to allocate ...".
_TORCH = re.compile(r"can't allocate memory|not enough memory|out of memory|Storage size calculation overflowed", re.I)


MARL = str(Path(__file__).parent)
LIBRARIES = (sysconfig.get_paths()["stdlib"], "site-packages", "dist-packages", "<")
USERS = 2  # how near to the user the user's own code stands
P = ParamSpec("P")
R = TypeVar("R")


def call_own(what: str, function: Callable[P, R], *args: P.args, **keys: P.kwargs) -> R:
    """Call what was registered from outside of marl; where it fails, the error names it and the line."""
    try:
        return function(*args, **keys)
    except UserError:
        raise
    except BaseException as error:
        let_through(error)
        failure = machine_failure(error)
        if failure is None:
            failure = ConfigError(
                f"{what} failed: {type(error).__name__}: {error}{line_of_code(error)}. Mend it, or choose another one."
            )
        raise failure from error


def line_of_code(error: BaseException) -> str:
    """`` (at env.py:12, in step: x = 1 / 0)``: the last line of the user's own code, which is where to look first."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    # The innermost line that is the user's; else of a library that he called; else of ours.
    nearest = frames[0]
    for frame in frames:
        if _nearness(frame.filename) >= _nearness(nearest.filename):
            nearest = frame
    code = ""
    if nearest.line:
        code = f": {nearest.line}"
    return f" (at {nearest.filename}:{nearest.lineno}, in {nearest.name}{code})"


def ran_own_code(error: BaseException) -> bool:
    """Whether the error came through a line of the user's own code."""
    return any(_nearness(frame.filename) == USERS for frame in traceback.extract_tb(error.__traceback__))


def _nearness(filename: str) -> int:
    """How near to the user a line of code stands: 0 marl's own, 1 a library's, 2 the user's."""
    if filename.startswith(MARL):
        return 0
    for part in LIBRARIES:
        if part in filename:
            return 1
    return USERS


def machine_failure(error: BaseException) -> UserError | None:
    """A full disk or too little memory as a ``UserError``; None for errors of any other kind."""
    if isinstance(error, StorageError):
        return error
    if _is_lack_of_memory(error):
        return out_of_memory(error)
    # Some of our own errors are children of OSError too; they say what to do already.
    if isinstance(error, UserError) or not isinstance(error, OSError):
        return None
    said = str(error.strerror or error)
    if error.filename:
        said = f"{error.filename}: {said}"
    return StorageError(f"the system refused to read or write a file: {said}.")


def _is_lack_of_memory(error: BaseException) -> bool:
    if isinstance(error, RuntimeError):
        return bool(_TORCH.search(str(error)))
    return isinstance(error, MemoryError)


def out_of_memory(error: BaseException) -> OutOfMemoryError:
    said = " ".join(str(error).split()) or type(error).__name__
    return OutOfMemoryError(
        f"there is not enough memory ({said[:300]}); {in_words(free_memory())} are free. Lower what takes the most: "
        "num_envs_per_worker, rollout_fragment_length, train_batch_size, buffer_size, fcnet_hiddens or num_workers."
    )
