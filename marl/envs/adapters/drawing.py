"""Gymnasium and PettingZoo envs only draw if they were told so when they were built, by the keyword ``render_mode``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

RENDER_MODE = "render_mode"


def build(creator: Callable[..., Any], config: Mapping[str, Any]) -> Any:
    """``creator(**config)``, with the ``render_mode`` of an ``EnvContext`` where somebody wants pictures.

    What ``env_config`` itself says goes first; a creator that does not know the keyword is called without it.
    """
    mode = getattr(config, RENDER_MODE, None)
    if mode is None or RENDER_MODE in config:
        return creator(**config)
    try:
        return creator(**{RENDER_MODE: mode, **config})
    except TypeError as error:
        if RENDER_MODE not in str(error):
            raise
        return creator(**config)
