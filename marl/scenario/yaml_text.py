"""YAML from anybody, read within bounds: plain values, each key once, no references to itself, no text that unfolds to more
than a scenario can be."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import yaml

from marl.errors import ConfigError

MOST_VALUES = 100_000  # after aliases are followed: a small file can unfold to billions
DEEPEST = 50  # levels
LARGEST_WHOLE = 2**53  # beyond, a double does not hold every whole number
LONGEST_NUMBER = 300  # characters: the largest double has 309 digits, and no key takes more
# What yaml's constructors let out instead of an error of their own: a date that does not exist, an int without digits, ...
BROKEN_VALUES = (ValueError, TypeError, AttributeError, LookupError, OverflowError)


def parse_yaml(text: str, what: str) -> Any:
    """The value that a YAML text stands for, shared by nobody; ``what`` names it in errors."""
    try:
        loaded = yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{what} is not readable YAML: {' '.join(str(error).split())}") from error
    except RecursionError:
        raise _too_deep(what) from None
    except BROKEN_VALUES as error:
        raise ConfigError(f"{what} is not readable YAML: {error}.") from error
    _measure(loaded, what)
    return deepcopy(loaded)  # what several aliases name is one object so far: a change here would be a change there


class _StrictLoader(yaml.SafeLoader):
    """Refuses Python objects (as SafeLoader does) and keys that are given twice; merges only so much."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._merged = self._nodes = self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Counts while it reads, so that a text of nothing but brackets is given up early."""
        self._nodes += 1
        self._depth += 1
        if self._depth > 2 * DEEPEST:
            raise RecursionError
        if self._nodes > MOST_VALUES:
            raise yaml.composer.ComposerError(
                None, None, f"it has more than {MOST_VALUES} values; a scenario is small", None
            )
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":  # `<<: *defaults`
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            if isinstance(key, str):
                seen.add(key)
        return super().construct_mapping(node, deep)

    def flatten_mapping(self, node: Any) -> None:
        """Merges of merges of merges multiply: each level may name the one below several times."""
        super().flatten_mapping(node)
        self._merged += len(node.value)
        if self._merged > MOST_VALUES:
            raise yaml.constructor.ConstructorError(
                None, None, f"merges (<<) unfold to more than {MOST_VALUES} values", node.start_mark
            )

    def construct_yaml_int(self, node: Any) -> int:
        if len(node.value) > LONGEST_NUMBER:
            raise yaml.constructor.ConstructorError(
                None, None, f"a number of {len(node.value)} characters", node.start_mark
            )
        return super().construct_yaml_int(node)

    def construct_exponent(self, node: Any) -> int | float:
        """``1e3`` is 1000 and ``5e-4`` is 0.0005, as in JSON and YAML 1.2; PyYAML takes both for texts."""
        value = float(node.value.replace("_", ""))
        # A whole number stays one: an env that counts to it would stumble over 1000.0.
        is_whole = _WHOLE.fullmatch(node.value) and abs(value) < LARGEST_WHOLE
        return int(value) if is_whole else value


# Digits without a point and an exponent without a minus.
_WHOLE = re.compile(r"[-+]?[0-9][0-9_]*[eE]\+?[0-9]+")
_EXPONENT = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+|[-+]?\.[0-9][0-9_]*[eE][-+]?[0-9]+")
_StrictLoader.add_implicit_resolver("!exponent", re.compile(f"^(?:{_EXPONENT.pattern})$"), list("-+.0123456789"))
_StrictLoader.add_constructor("!exponent", _StrictLoader.construct_exponent)
_StrictLoader.add_constructor("tag:yaml.org,2002:int", _StrictLoader.construct_yaml_int)


def _measure(loaded: object, what: str) -> None:
    """Walk through all values as often as they are named, without following anything into itself."""
    counted = 0
    waiting: list[tuple[object, tuple[int, ...]]] = [(loaded, ())]
    while waiting:
        value, above = waiting.pop()
        counted += 1
        if counted > MOST_VALUES:
            raise ConfigError(f"{what} unfolds to more than {MOST_VALUES} values (aliases?); a scenario is small.")
        if not isinstance(value, dict | list | set | tuple):
            continue
        if id(value) in above:
            raise ConfigError(
                f"{what} holds a value that contains itself (an alias inside of its own anchor). Write it out."
            )
        if len(above) >= DEEPEST:
            raise _too_deep(what)
        items = list(value)
        if isinstance(value, dict):
            items += value.values()
        waiting += [(item, (*above, id(value))) for item in items]


def _too_deep(what: str) -> ConfigError:
    return ConfigError(
        f"{what} is not readable YAML: it is nested in more than {DEEPEST} levels. A scenario has a few."
    )
