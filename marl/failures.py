"""What the machine says when it has no more to give, as errors that a user understands."""

from __future__ import annotations

import re

from marl.errors import OutOfMemoryError, StorageError, UserError
from marl.memory import free_memory, in_words

# torch has no class of its own for this on the CPU: "DefaultCPUAllocator: can't allocate memory: you tried to allocate ...".
_TORCH = re.compile(r"can't allocate memory|not enough memory|out of memory|Storage size calculation overflowed", re.I)


def machine_failure(error: BaseException) -> UserError | None:
    """A full disk or too little memory as a ``UserError``; None for errors of any other kind."""
    if isinstance(error, StorageError):
        return error
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _TORCH.search(str(error))):
        return out_of_memory(error)
    if isinstance(error, OSError) and not isinstance(error, UserError):
        place = f"{error.filename}: " if error.filename else ""
        return StorageError(f"the system refused to read or write a file: {place}{error.strerror or error}.")
    return None


def out_of_memory(error: BaseException) -> OutOfMemoryError:
    said = " ".join(str(error).split()) or type(error).__name__
    return OutOfMemoryError(
        f"there is not enough memory ({said[:300]}); {in_words(free_memory())} are free. Lower what takes the most: "
        "num_envs_per_worker, rollout_fragment_length, train_batch_size, buffer_size, fcnet_hiddens or num_workers."
    )
