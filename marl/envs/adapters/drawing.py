"""Gymnasium and PettingZoo envs only draw if they were told so when they were built, by the keyword ``render_mode``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

RENDER_MODE = "render_mode"


def build(creator: Callable[..., Any], config: Mapping[str, Any]) -> Any:
    """``creator(**config)``, with the ``render_mode`` of an ``EnvContext`` where pictures are wanted.

    What ``env_config`` itself says goes first; a creator that does not know the keyword is called without it.
    """
    mode = getattr(config, RENDER_MODE, None)
    asks_for_pictures = mode is not None and RENDER_MODE not in config
    if not asks_for_pictures:
        return creator(**config)
    try:
        return creator(**{RENDER_MODE: mode, **config})
    except TypeError as error:
        if RENDER_MODE not in str(error):  # it complains about something else
            raise
        return creator(**config)
