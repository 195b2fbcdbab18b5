"""The JSON schema of a suite file, for completion and checks in editors (``marl schema --suite``).

Made from the config classes and from the schema of scenarios, whose keys may stand in every entry. An algorithm's own keys are
known once a cell is put together, so an entry may hold those of any; `marl suite FILE --check` looks at each cell.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from marl.scenario.schema import DIALECT, scenario_schema
from marl.suite.config import CellEntry, Entry, EnvEntry, Suite
from marl.suite.load import DECIDED

Schema: TypeAlias = dict[str, Any]


def suite_schema() -> Schema:
    """Schema of a suite file."""
    scenario = scenario_schema()
    found = Suite.model_json_schema()
    defs: Schema = {**scenario["$defs"], **found.get("$defs", {})}
    keys = {key: value for key, value in scenario["properties"].items() if key not in DECIDED}
    properties: Schema = found["properties"]
    for name, kind in (("envs", EnvEntry), ("algos", Entry), ("cells", CellEntry)):
        properties[name]["additionalProperties"] = _entry(kind, keys, defs)
    properties["scenario"] = {**properties["scenario"], "properties": keys, **_dotted()}
    return {"$schema": DIALECT, **found, "$defs": defs, "title": "marl suite"}


def _entry(kind: type[Entry], keys: Schema, defs: Schema) -> Schema:
    """Keys of the suite first, where a scenario has one of the same name."""
    own = kind.model_json_schema()
    defs |= own.pop("$defs", {})
    return {"type": ["object", "null"], "properties": {**keys, **own["properties"]}, **_dotted()}


def _dotted() -> Schema:
    """Keys of sections may be given by their dotted names."""
    return {"additionalProperties": False, "patternProperties": {r"\.": {}}}
