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
from marl.scenario.joyrl import Translation, is_joyrl, translate
from marl.scenario.key_places import misplaced, takes_list
from marl.scenario.rllib_keys import OLD_KEYS
from marl.scenario.rllib_words import in_our_words
from marl.scenario.search_marks import refuse_marks
from marl.scenario.yaml_text import parse_yaml

LARGEST_FILE = 1_000_000  # bytes
SECTIONS = ("algo", "model", "multiagent")
MERGED = (*SECTIONS, "evaluation", "exploitability")  # a change of some of their keys leaves the others as they were
# Of a name that several have, the one that comes last here is meant.
SECTION_OF: dict[str, str | None] = {
    **dict.fromkeys(MULTIAGENT_KEYS, "multiagent"),
    **dict.fromkeys(MODEL_KEYS, "model"),
    **dict.fromkeys(ALL_ALGO_KEYS, "algo"),
    **dict.fromkeys(TOP_KEYS, None),
}


def load_scenario(path: Path | str, sets: Iterable[str] = (), changes: Mapping[str, Any] | None = None) -> Scenario:
    """The scenario of a file, with ``key=value`` texts and a dict of changes applied over it."""
    path = Path(path)
    raw = read_yaml(path)
    raw.setdefault("name", path.stem)
    for text in sets:
        key, value = parse_set(text)
        apply(raw, key, value)
    if changes is not None:
        for key, value in changes.items():
            apply(raw, key, value)
    return compose(raw, str(path))


def read_yaml(path: Path) -> dict[str, Any]:
    """The scenario in a file, or of a shipped name; JoyRL's YAML is read as one of ours."""
    raw, translation = read_any(path)
    if translation is not None and translation.playing is not None:
        raise ConfigError(
            f"{path} says mode: test, so there is nothing to train. Play it: marl run {path}, which is "
            f"{translation.playing.command}"
        )
    return raw


def read_any(path: Path) -> tuple[dict[str, Any], Translation | None]:
    """The scenario in a file, and how it was read if it is in JoyRL's words."""
    loaded = _read_mapping(path)
    if not is_joyrl(loaded):
        return loaded, None
    translation = translate(loaded, str(path))
    return dict(translation.scenario), translation


def _read_mapping(path: Path) -> dict[str, Any]:
    """A YAML mapping; what is broken or hostile is a ``ConfigError``."""
    path = _file_or_shipped(path)
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; expected a scenario file, such as scenarios/two_step_game.yaml.")
    if not path.exists():
        raise ConfigError(f"no scenario file {path}.{_nearest_file(path)}")
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


def _nearest_file(path: Path) -> str:
    """A sentence on what might have been meant by a file that does not exist."""
    nearby: list[str] = []
    if path.parent.is_dir():
        nearby = [str(file) for file in sorted(path.parent.glob("*.yaml"))]
    hint = did_you_mean(path, [*nearby, *shipped_scenarios()])
    if hint:
        return hint
    if not nearby:
        return ""
    return f" There is: {', '.join(nearby[:8])}."


def _file_or_shipped(path: Path) -> Path:
    """A file that is there comes first; a bare name that is not one may be that of a shipped scenario."""
    if path.is_file():
        return path
    # `./two_step_game` and `two_step_game.yaml` say where to look, so a file that is missing there is an error.
    is_bare_name = path.name == str(path) and not path.suffix
    if not is_bare_name:
        return path
    return shipped_scenarios().get(path.name, path)


def shipped_scenarios() -> dict[str, Path]:
    """Name to file of the scenarios that come with the package: ``marl run two_step_game`` works in any folder."""
    package = Path(__file__).parents[1]
    folder = package / "scenarios"
    # A built wheel holds them as marl/scenarios; in a checkout they are the repository's scenarios/, one place, no copies.
    in_checkout = (package.parent / "pyproject.toml").is_file()
    if in_checkout and not folder.is_dir():
        folder = package.parent / "scenarios"
    return {file.stem: file for file in sorted(folder.rglob("*.yaml"))}


def parse_set(text: str) -> tuple[str, Any]:
    """``algo.lr=0.001`` to its key and value; the value is read as YAML, and ``64,64`` as a list where one is expected."""
    key, equals, value = text.partition("=")  # the first: values may have more of them
    key = key.strip()
    if not equals or not key:
        raise ConfigError(f"--set {text!r}: expected key=value, for instance --set algo.lr=0.001.")
    what = f"--set {text!r}: the value"
    found = parse_yaml(value, what)
    if _is_bare_list(key, found):
        found = parse_yaml(f"[{value}]", what)
    return key, found


def _is_bare_list(key: str, value: Any) -> bool:
    """Whether a value without brackets stands for a list; a shell would want quotes around brackets."""
    if isinstance(value, bool):  # an int for Python
        return False
    if not isinstance(value, str | int | float):
        return False
    parents, last = _place_of(key)
    a_list, a_text = takes_list(".".join(parents), last)
    if not a_list:
        return False
    if a_text:
        # A single word may be what it says where a key takes texts, too.
        return "," in str(value)
    return True


def apply(raw: dict[str, Any], key: str, value: Any) -> None:
    """Put a value under a dotted key; a flat key is put into its section."""
    parents, last = _place_of(key)
    place = raw
    for parent in parents:
        place = _open_section(place, parent, key)
    if not parents and last in MERGED:
        value = _merged(last, place.get(last), value)
    place[last] = value


def _place_of(key: str) -> tuple[list[str], str]:
    """The sections around a key, from the outside in, and its name in the innermost of them."""
    *parents, last = key.split(".")
    if not parents:
        section = section_of(last)
        if section is not None:
            parents = [section]
    elif parents[0] in ("goal", "stop"):
        # Names of result fields have dots of their own: goal.evaluation.episode_reward_mean is one field of goal.
        section, _, last = key.partition(".")
        parents = [section]
    return parents, last


def _open_section(place: dict[str, Any], name: str, key: str) -> dict[str, Any]:
    """The section below ``place``, as a copy that may be written to."""
    inner = _as_section(name, place.get(name))
    if inner is None:
        inner = {}
    if not isinstance(inner, dict):
        raise ConfigError(f"{key}: {name!r} is {inner!r}, which has no keys of its own.")
    place[name] = dict(inner)
    section: dict[str, Any] = place[name]
    return section


def _merged(section: str, before: Any, now: Any) -> Any:
    """A change of some keys of a section leaves the others as they were."""
    old = _as_section(section, before)
    new = _as_section(section, now)
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **new}
    return now


def _as_section(name: str, value: Any) -> Any:
    """``algo: qmix`` is short for ``algo: {name: qmix}``; everything else stays as it is."""
    if name == "algo" and isinstance(value, str):
        return {"name": value}
    return value


def section_of(key: str) -> str | None:
    """The section that a flat key belongs to; None for a top-level (or unknown) key."""
    return SECTION_OF.get(key)


def sort_keys(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The same keys in their sections: ``{"lr": 1e-3}`` becomes ``{"algo": {"lr": 1e-3}}``."""
    raw: dict[str, Any] = {}
    for key, value in flat.items():
        if key in SECTIONS and isinstance(value, Mapping):
            _add_section(raw, key, value)
        elif section_of(str(key)) is not None:
            apply(raw, str(key), value)
        elif key == "algo" and "algo" in raw:
            # Flat keys of the algorithm came first; its name joins them.
            raw["algo"] = {**raw["algo"], "name": value}
        else:
            raw[key] = value
    return raw


def _add_section(raw: dict[str, Any], section: str, keys: Mapping[str, Any]) -> None:
    for key, value in keys.items():
        dotted = key
        # A dotted key says by itself where it belongs, whatever section it stands in.
        if "." not in str(key):
            dotted = f"{section}.{key}"
        apply(raw, dotted, value)
    raw.setdefault(section, {})


def compose(raw: Mapping[str, Any], where: str = "config") -> Scenario:
    """A checked scenario from a (possibly flat) dict."""
    keys = sort_keys(in_our_words(raw, where))
    refuse_marks(keys, where)  # before the types are checked, which would call a search a wrong value
    known = [*TOP_KEYS, *ALL_ALGO_KEYS, *MODEL_KEYS, *MULTIAGENT_KEYS]
    _import_first(keys.get("imports"))
    try:
        scenario = Scenario(**keys)
    except ValidationError as error:
        nearest = _known_at(error, known)
        hints = {**misplaced(error), **OLD_KEYS}
        raise explain(error, where, nearest, hints) from None
    except TypeError as error:
        raise ConfigError(f"{where}: {error}") from error
    check_algo_keys(scenario, where)
    return scenario


def _import_first(modules: Any) -> None:
    """Modules under ``imports`` may register the names that other keys use; what is no list of names is told later."""
    if not isinstance(modules, list | tuple):
        return
    # All are looked at before the first is imported, which runs its code.
    if not all(isinstance(module, str) for module in modules):
        return
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
        hints = {**misplaced(error, "algo"), **OLD_KEYS}
        raise explain(error, f"{where}: algo {preset.name}", known, hints) from None


def _check_owner(error: ValidationError, preset: Preset, where: str) -> None:
    """A key that other algorithms have is no typo."""
    for problem in error.errors():
        if problem["type"] != "extra_forbidden":
            continue
        key = str(problem["loc"][-1])
        owners = [name for name in ALGOS if key in ALGO_KEYS.get(name, ())]
        if owners:
            raise ConfigError(
                f"{where}: {preset.name} has no key {key!r}; it belongs to {', '.join(owners)}. Drop it, or take one of these."
            ) from None


def _known_at(error: ValidationError, top: list[str]) -> list[str]:
    """Names of the place where the first unknown key stands."""
    for problem in error.errors():
        place: Any = Scenario
        for part in problem["loc"][:-1]:
            # A number is a place in a list of sections, which are all alike.
            if isinstance(part, str):
                place = _section_below(place, part)
        is_section = place is not Scenario and hasattr(place, "model_fields")
        if is_section:
            return list(place.model_fields)
    return top


def _section_below(place: Any, name: str) -> Any:
    """The config class of a key, behind ``Section`` or ``Section | None``; None where there is no such key."""
    field = getattr(place, "model_fields", {}).get(name)
    if field is None:
        return None
    for choice in (field.annotation, *get_args(field.annotation)):
        if hasattr(choice, "model_fields"):
            return choice
    return field.annotation
