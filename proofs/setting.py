"""What a proof was measured with besides the package: what its declaration says about the run, and every key of its scenario.

Texts of files are not compared but what they say: a comment, another order or another file name changes nothing. A key that
came since then, with its default, changes nothing either; whether its default does, the replay of the first iterations tells.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from marl.scenario.config import Scenario
from marl.scenario.describe import describe
from proofs.declaration import Places, Proof

Keys: TypeAlias = dict[str, Any]
"""Dotted keys to their values."""
# Who it is, what a run of one's own would aim at, what the proof itself puts in.
LEFT_OUT = ("name", "goal", "seed", "input")


@dataclass(frozen=True)
class Setting:
    """The declaration without its claim and limits, which are judged anew, and the keys: given ones, and defaults."""

    declaration: Keys = field(default_factory=dict)
    given: Keys = field(default_factory=dict)
    defaults: Keys = field(default_factory=dict)

    def difference(self, now: Setting) -> str | None:
        """The first thing that is said otherwise now; None if nothing is."""
        for key, value in self.declaration.items():
            if now.declaration.get(key) != value:
                return f"{key} of its declaration is {_text(now.declaration.get(key))}, was {_text(value)}"
        known = {**self.defaults, **self.given}
        values = {**now.defaults, **now.given}
        for key in known.keys() & values.keys():
            if known[key] != values[key]:
                return f"{key} is {_text(values[key])}, was {_text(known[key])}"
        return _come_and_gone(
            gone={key: value for key, value in self.given.items() if key not in values},
            come={key: value for key, value in now.given.items() if key not in known},
        )


def _come_and_gone(gone: Keys, come: Keys) -> str | None:
    """Keys that are given on one side alone; those that have the same value were renamed."""
    values = list(come.values())
    for key, value in gone.items():
        if value not in values:
            return f"{key} is no longer given, was {_text(value)}"
        values.remove(value)
    for key, value in come.items():
        if value in values:
            return f"{key} is {_text(value)}, was not there"
    return None


def setting_of(proof: Proof, places: Places) -> Setting:
    """As the declaration and the scenario say it today."""
    scenario = places.load(proof, proof.all_seeds[0])
    values = _flat(describe(scenario))
    plain = _flat(describe(Scenario(env=scenario.env, algo={"name": scenario.preset.name})))
    given = {key: value for key, value in values.items() if key not in plain or plain[key] != value}
    defaults = {key: value for key, value in values.items() if key not in given}
    return Setting(_declared(proof), given, defaults)


def _declared(proof: Proof) -> Keys:
    said = proof.model_dump(include={"kind", "budget", "prepare", "clients", "search", "tune"})
    ends_with = proof.reaches if proof.stop_when_reached else {}
    games = None if proof.matches is None else [proof.matches.policy, proof.matches.games]
    return _plain({**said, "fields": proof.fields, "ends with": ends_with, "matches": games})


def _flat(section: Mapping[str, Any], place: str = "") -> Keys:
    flat: Keys = {}
    for key, value in section.items():
        if not place and key in LEFT_OUT:
            continue
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{place}{key}.")
        else:
            flat[f"{place}{key}"] = value
    return _plain(flat)


def _plain(keys: Mapping[str, Any]) -> Keys:
    """As a file gives them back."""
    plain: Keys = json.loads(json.dumps(keys, default=str))
    return plain


def _text(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
