"""From a YAML file, a flat dict or ``--set key=value`` to a checked scenario."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from marl.algos.family import ALGOS, Preset
from marl.config import explain
from marl.errors import ConfigError, did_you_mean
from marl.inputs import read_text
from marl.registry import import_module
from marl.scenario.config import ALGO_KEYS, ALL_ALGO_KEYS, MODEL_KEYS, MULTIAGENT_KEYS, TOP_KEYS, Scenario
from marl.scenario.rllib_keys import OLD_KEYS
from marl.scenario.search_marks import refuse_marks
from marl.scenario.shipped import shipped_scenarios
from marl.scenario.yaml_text import parse_yaml

LARGEST_FILE = 1_000_000  # bytes
SECTIONS = ("algo", "model", "multiagent")
MERGED = (*SECTIONS, "evaluation", "exploitability")  # a change of some of their keys leaves the others as they were


def load_scenario(path: Path | str, sets: Iterable[str] = (), changes: Mapping[str, Any] | None = None) -> Scenario:
    """The scenario of a file, with ``key=value`` texts and a dict of changes applied over it."""
    path = Path(path)
    raw = read_yaml(path)
    raw.setdefault("name", path.stem)
    for text in sets:
        apply(raw, *parse_set(text))
    for key, value in (changes or {}).items():
        apply(raw, key, value)
    return compose(raw, str(path))


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML mapping from a file, or the name of a shipped scenario; what is broken or hostile is a ``ConfigError``."""
    path = _file_or_shipped(path)
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; expected a scenario file, such as scenarios/two_step_game.yaml.")
    if not path.exists():
        nearby = [str(p) for p in sorted(path.parent.glob("*.yaml"))] if path.parent.is_dir() else []
        hint = did_you_mean(path, [*nearby, *shipped_scenarios()])
        hint = hint or (f" There is: {', '.join(nearby[:8])}." if nearby else "")
        raise ConfigError(f"no scenario file {path}.{hint}")
    try:
        text = read_text(path, largest=LARGEST_FILE)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as a scenario: {error}.") from error
    loaded = parse_yaml(text, str(path))
    if not isinstance(loaded, dict):
        raise ConfigError(
            f"{path} holds a {type(loaded).__name__}; expected keys and values, such as `env: two_step_game`."
        )
    return loaded


def _file_or_shipped(path: Path) -> Path:
    """A file that is there comes first; a bare name that is not one may be that of a shipped scenario."""
    bare = path.name == str(path) and not path.suffix
    if not bare or path.is_file():
        return path
    return shipped_scenarios().get(path.name, path)


def parse_set(text: str) -> tuple[str, Any]:
    """``algo.lr=0.001`` to its key and value; the value is read as YAML."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {text!r}: expected key=value, for instance --set algo.lr=0.001.")
    return key.strip(), parse_yaml(value, f"--set {text!r}: the value")


def apply(raw: dict[str, Any], key: str, value: Any) -> None:
    """Put a value under a dotted key; a flat key is put into its section."""
    *parents, last = key.split(".")
    if parents and parents[0] in ("goal", "stop"):  # names of result fields have dots of their own
        parents, last = parents[:1], key.partition(".")[2]
    if not parents and section_of(last) is not None:
        parents = [str(section_of(last))]
    place = raw
    for parent in parents:
        inner = place.get(parent)
        if parent == "algo" and isinstance(inner, str):
            inner = {"name": inner}
        if inner is not None and not isinstance(inner, dict):
            raise ConfigError(f"{key}: {parent!r} is {inner!r}, which has no keys of its own.")
        place[parent] = dict(inner or {})
        place = place[parent]
    if not parents and last in MERGED and place.get(last):  # some keys: the rest of the section stays
        before, now = (_as_section(last, part) for part in (place[last], value))
        value = {**before, **now} if isinstance(before, dict) and isinstance(now, dict) else value
    place[last] = value


def _as_section(name: str, value: Any) -> Any:
    return {"name": value} if name == "algo" and isinstance(value, str) else value


def section_of(key: str) -> str | None:
    """The section that a flat key belongs to; None for a top-level (or unknown) key."""
    if key in TOP_KEYS:
        return None
    for section, keys in (("algo", ALL_ALGO_KEYS), ("model", MODEL_KEYS), ("multiagent", MULTIAGENT_KEYS)):
        if key in keys:
            return section
    return None


def sort_keys(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The same keys in their sections: ``{"lr": 1e-3}`` becomes ``{"algo": {"lr": 1e-3}}``."""
    raw: dict[str, Any] = {}
    for key, value in flat.items():
        if key in SECTIONS and isinstance(value, Mapping):
            for inner, inner_value in value.items():
                apply(raw, f"{key}.{inner}" if "." not in str(inner) else inner, inner_value)
            raw.setdefault(key, {})
        elif key in TOP_KEYS or section_of(str(key)) is None:
            raw[key] = {**raw["algo"], "name": value} if key == "algo" and "algo" in raw else value
        else:
            apply(raw, str(key), value)
    return raw


def compose(raw: Mapping[str, Any], where: str = "config") -> Scenario:
    """A checked scenario from a (possibly flat) dict."""
    keys = sort_keys(raw)
    refuse_marks(keys, where)
    known = [*TOP_KEYS, *ALL_ALGO_KEYS, *MODEL_KEYS, *MULTIAGENT_KEYS]
    _import_first(keys.get("imports"))
    try:
        scenario = Scenario(**keys)
    except ValidationError as error:
        raise explain(error, where, _known_at(error, known), OLD_KEYS) from None
    except TypeError as error:
        raise ConfigError(f"{where}: {error}") from error
    check_algo_keys(scenario, where)
    return scenario


def _import_first(modules: Any) -> None:
    """Modules under ``imports`` may register the names that other keys use; what is no list of names is told later."""
    if isinstance(modules, list | tuple) and all(isinstance(module, str) for module in modules):
        for module in modules:
            import_module(module, "imports")


def check_algo_keys(scenario: Scenario, where: str) -> None:
    """Raise on an unknown algorithm, and on keys that it does not have."""
    preset = scenario.preset
    try:
        preset.configure(**scenario.algo_keys)
    except ValidationError as error:
        _check_owner(error, preset, where)
        known = preset.family.config.model_fields
        raise explain(error, f"{where}: algo {preset.name}", known, OLD_KEYS) from None


def _check_owner(error: ValidationError, preset: Preset, where: str) -> None:
    """A key that other algorithms have is no typo."""
    for problem in error.errors():
        key = str(problem["loc"][-1]) if problem["loc"] else ""
        owners = [name for name in ALGOS if key in ALGO_KEYS[name]]
        if problem["type"] == "extra_forbidden" and owners:
            raise ConfigError(
                f"{where}: {preset.name} has no key {key!r}; it belongs to {', '.join(owners)}. Drop it, or take one of these."
            ) from None


def _section(annotation: Any) -> Any:
    """The config class behind ``Section`` or ``Section | None``."""
    choices = [annotation, *get_args(annotation)]
    return next((choice for choice in choices if hasattr(choice, "model_fields")), annotation)


def _known_at(error: ValidationError, top: list[str]) -> list[str]:
    """Names of the place where the first unknown key stands."""
    for problem in error.errors():
        place: Any = Scenario
        for part in problem["loc"][:-1]:
            if isinstance(part, int):  # a place in a list of sections
                continue
            field = getattr(place, "model_fields", {}).get(part)
            place = _section(field.annotation) if field is not None else None
        if place is not Scenario and hasattr(place, "model_fields"):
            return list(place.model_fields)
    return top
