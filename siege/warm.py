"""Everything that a command could import, imported once: children are forked from here."""

from __future__ import annotations

import importlib
import pkgutil
import threading


def warm_up() -> None:
    """Import the whole package and the heavy libraries that it loads on demand; Ray stays out until a run wants it."""
    import torch

    torch.set_num_threads(1)
    import marl

    for module in pkgutil.walk_packages(marl.__path__, "marl."):
        importlib.import_module(module.name)
    for name in ("torch.utils.tensorboard", "torch._dynamo", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        importlib.import_module(name)
    if threading.active_count() > 1:
        raise RuntimeError(f"a process with threads must not be forked: {threading.enumerate()}")
