"""The JSON schema of a scenario file, for completion and checks in editors (``marl schema``).

It is made from the config classes, so every key comes with its sentence, type, limits and default. What these classes leave
open is closed here: ``algo`` is a name or one of the algorithms with its own keys and defaults, a policy's overrides are keys
of algorithms and models, and keys may stand flat at the top, as long as the algorithm has them. Wherever a value stands, a
search over values may stand instead (``{grid_search: [...]}``, for ``marl tune``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import BaseModel

from marl.algos.presets import ALGOS, Preset
from marl.policies.config import ExplorationConfig, ModelConfig, ScriptedConfig
from marl.scenario.config import ALL_ALGO_KEYS, MultiAgentConfig, Scenario
from marl.scenario.search_marks import KINDS

Schema: TypeAlias = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DEFAULT = "ppo"
OWN = {"type": "string", "pattern": ":", "description": "package.module:Class of an algorithm of your own."}
WORDS = ("description", "title", "needs")
SEARCH = {"$ref": "#/$defs/search"}


def scenario_schema(sections: Mapping[str, type[BaseModel]] | None = None) -> Schema:
    """Schema of a scenario file; ``sections`` are more of them that only some commands read."""
    schema = Scenario.model_json_schema()
    defs: Schema = schema["$defs"]
    defs["search"] = _search()
    for name in ALGOS:
        defs[f"algo_{name}"] = _algorithm(ALGOS[name], defs)
    defs["policy"] = _policy(defs)
    _take_defs(defs, ScriptedConfig.model_json_schema())
    defs["MultiAgentConfig"]["properties"]["policies"] |= {"type": ["object", "array"], **_policies()}
    top: Schema = schema["properties"]
    top["env"] |= {"type": "string"}
    top["algo"] = {**_algo(), "description": top["algo"]["description"], "default": DEFAULT}
    for name, section in (sections or {}).items():
        top[name] = _inlined(section.model_json_schema(), defs)
    flat = {**_flat_algo_keys(defs), **_properties(ModelConfig, defs), **_properties(MultiAgentConfig, defs)}
    flat["policies"] = {**flat["policies"], "type": ["object", "array"], **_policies()}
    _allow_searches(flat)
    _allow_searches(top)
    _allow_searches(defs["ModelConfig"]["properties"])
    # A key of the scenario itself comes first where an algorithm has one of the same name.
    for key, value in flat.items():
        top.setdefault(key, value)
    schema["allOf"] = [_only_its_own_keys(name) for name in ALGOS]
    return {"$schema": DIALECT, **schema, "title": "marl scenario"}


def _allow_searches(properties: Schema) -> None:
    """Which algorithm it is cannot be searched: its keys would have to change with it."""
    for key, value in properties.items():
        if key != "algo":
            properties[key] = _searchable(value)


def _search() -> Schema:
    pair = {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "number"}}
    some = {"type": "array", "minItems": 1}
    kinds = dict.fromkeys(KINDS, pair)
    kinds["grid_search"] = kinds["choice"] = some
    return {
        "description": "Values to try, for `marl tune`.",
        "type": "object",
        "properties": kinds,
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }


def _searchable(value: Schema) -> Schema:
    """The same, or a search. Sections stay as they are: what is searched are the values in them."""
    if _is_section(value):
        return value
    about, allowed = _apart(value, (*WORDS, "default"))
    if not allowed:  # anything goes, a search too
        return about
    return {"anyOf": [allowed, SEARCH], **about}


def _is_section(value: Schema) -> bool:
    """Whether it points to a class of keys, or to one or nothing."""
    forms = [value, *value.get("anyOf", ())]
    return any("$ref" in form for form in forms)


def _named(name: str) -> Schema:
    """The name in any case; the plain one is what an editor offers."""
    # JSON Schema has no flag for "any case".
    pattern = ""
    for sign in name:
        if sign.isalpha():
            pattern += f"[{sign}{sign.upper()}]"
        else:
            pattern += sign
    return {"anyOf": [{"const": name}, {"type": "string", "pattern": f"^{pattern}$"}]}


def _algorithm(preset: Preset, defs: Schema) -> Schema:
    """``{name: NAME, ...}`` with the keys of one algorithm and the defaults of its preset."""
    keys = _properties(preset.family.config, defs)
    for key, value in preset.defaults.items():
        keys[key] = {**keys[key], "default": value}
    for key in preset.fixed:
        keys[key] = {**keys[key], "const": preset.defaults[key]}
    keys = {key: _searchable(value) for key, value in keys.items()}
    required = ["name"]
    if preset.name == DEFAULT:  # keys without a name are its keys
        required = []
    return {
        "title": preset.name,
        "description": preset.summary,
        "type": "object",
        "properties": {"name": _named(preset.name), **keys},
        "required": required,
        "additionalProperties": False,
    }


def _algo() -> Schema:
    """A name, or exactly one of the algorithms with its keys, or one of the user's own with any keys."""
    own = {"type": "object", "properties": {"name": OWN}, "required": ["name"]}
    names = {"anyOf": [_named(name) for name in ALGOS]}
    return {"oneOf": [names, OWN, *({"$ref": f"#/$defs/algo_{name}"} for name in ALGOS), own]}


def _policy(defs: Schema) -> Schema:
    """Overrides of one policy."""
    keys = {**_flat_algo_keys(defs), **_properties(ModelConfig, defs)}
    own = {
        "algo": {"anyOf": [_algo(), {"type": "object"}], "description": "Another algorithm for this policy."},
        "scripted": {"anyOf": [{"type": "string"}, _inlined(ScriptedConfig.model_json_schema(), defs)]},
        "exploration_config": _inlined(ExplorationConfig.model_json_schema(), defs),
    }
    properties = {**{key: _searchable(value) for key, value in keys.items()}, **own}
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}


def _policies() -> Schema:
    return {"items": {"type": "string"}, "additionalProperties": {"$ref": "#/$defs/policy"}}


def _flat_algo_keys(defs: Schema) -> Schema:
    """Every key of any algorithm; where they differ in what they allow, all of it."""
    found: dict[str, list[Schema]] = {}
    for name in ALGOS:
        for key, value in _properties(ALGOS[name].family.config, defs).items():
            form = dict(value)
            form.pop("default", None)  # presets differ in it
            found.setdefault(key, []).append(form)
    return {key: _either(forms) for key, forms in found.items()}


def _either(forms: Sequence[Schema]) -> Schema:
    """What any of them allows. Words differ between algorithms, such as what a key needs: the first ones stand here."""
    about, first = _apart(forms[0], WORDS)
    distinct = [first]
    for form in forms[1:]:
        _, allowed = _apart(form, WORDS)
        if allowed not in distinct:
            distinct.append(allowed)
    if len(distinct) == 1:
        return about | first
    return {**about, "anyOf": distinct}


def _apart(value: Schema, keys: Sequence[str]) -> tuple[Schema, Schema]:
    """These keys of a schema, and the others."""
    these: Schema = {}
    others: Schema = {}
    for key, part in value.items():
        holder = these if key in keys else others
        holder[key] = part
    return these, others


def _only_its_own_keys(name: str) -> Schema:
    """At the top of a scenario with this algorithm, flat keys of other algorithms are mistakes."""
    foreign = sorted(ALL_ALGO_KEYS - set(ALGOS[name].family.config.model_fields))  # also of registered ones
    by_name = {"required": ["name"], "properties": {"name": _named(name)}}
    chosen: Schema = {
        "required": ["algo"],
        "properties": {"algo": {"anyOf": [_named(name), {"type": "object", **by_name}]}},
    }
    if name == DEFAULT:
        oracle = {"required": ["population"], "properties": {"population": {"required": ["oracle"]}}}
        unnamed = {"properties": {"algo": {"type": "object", "not": {"required": ["name"]}}}, "not": oracle}
        chosen = {"anyOf": [chosen, unnamed]}
    return {"if": chosen, "then": {"properties": dict.fromkeys(foreign, False)}}


def _properties(config: type[BaseModel], defs: Schema) -> Schema:
    made = _inlined(config.model_json_schema(), defs)
    properties: Schema = made["properties"]
    return properties


def _inlined(schema: Schema, defs: Schema) -> Schema:
    """A schema whose definitions stand with all the others."""
    _take_defs(defs, schema)
    inlined = dict(schema)
    inlined.pop("$defs", None)
    return inlined


def _take_defs(defs: Schema, schema: Schema) -> None:
    for name, value in schema.get("$defs", {}).items():
        defs.setdefault(name, value)
