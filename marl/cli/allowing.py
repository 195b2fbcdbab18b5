"""Modules that files may import, given once for all commands: by ``MARL_ALLOW``, or in a file of the user's own.

    export MARL_ALLOW=my_package,my_envs                # several: commas or spaces between them
    ~/.config/marl/config.yaml                          # allow: [my_package, my_envs]

Both add to ``--allow``. Programs in Python say ``allow=[...]`` themselves.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from marl.errors import ConfigError

VARIABLE = "MARL_ALLOW"
LARGEST_FILE = 100_000  # bytes
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def with_standing(given: list[str] | None) -> list[str]:
    """What ``--allow`` said, and what is allowed for every command."""
    return [*(given or []), *_of_variable(), *_of_file(config_file())]


def config_file() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "marl" / "config.yaml"


def _of_variable() -> list[str]:
    words = re.split(r"[,\s]+", os.environ.get(VARIABLE, "").strip())
    modules: list[str] = []
    for word in words:
        if word:  # nothing stands before the first comma, or in a variable that is empty
            modules.append(_checked(word, VARIABLE))
    return modules


def _of_file(path: Path) -> list[str]:
    from marl.inputs import read_text
    from marl.scenario.yaml_text import parse_yaml

    if not path.is_file():
        return []
    try:
        text = read_text(path, largest=LARGEST_FILE)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error
    keys = parse_yaml(text, str(path)) or {}  # an empty file, and `allow:` with nothing behind it, are null
    modules = None
    if isinstance(keys, dict) and keys.keys() <= {"allow"}:
        modules = keys.get("allow") or []
    # A misspelt key would leave the user to wonder why nothing is allowed.
    if not isinstance(modules, list):
        raise ConfigError(f"{path} holds {keys!r}; expected one key, such as allow: [my_package].")
    return [_checked(module, str(path)) for module in modules]


def _checked(module: Any, where: str) -> str:
    if not isinstance(module, str) or not _MODULE.fullmatch(module):
        raise ConfigError(f"{where}: {module!r} is no module; expected names such as my_package or my_package.envs.")
    return module
