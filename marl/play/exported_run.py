"""Exported policies as a run that can be played: in the env that they name, or in another one with equal spaces."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from marl.data.task import PolicyID
from marl.errors import ConfigError
from marl.play.changes import NOTHING, Changes
from marl.play.export import Exported, exported_folders, read_exported
from marl.play.playable import Playable
from marl.play.policy_sources import RANDOM, cast
from marl.policies.build import build_policies
from marl.scenario.load import compose
from marl.scenario.resolve import resolve
from marl.trust import only_modules


def open_playable(path: Path, allow: frozenset[str], changes: Changes = NOTHING) -> Playable:
    """A run, a checkpoint, or the folder of an export."""
    if exported_folders(path.expanduser()):
        return _open_export(path.expanduser(), allow, changes)
    return Playable.open(path, allow, changes)


def _open_export(path: Path, allow: frozenset[str], changes: Changes) -> Playable:
    # The env's name comes out of the file, so it is followed under the same trust as that of a run.
    trusted = partial(only_modules, allow, changes.words)
    with trusted():
        exported = {name: read_exported(path, name) for name in exported_folders(path)}
        first = next(iter(exported.values()))
        raw: dict[str, Any] = {
            "env": first.about["env"],
            "env_config": {},
            "normalize_actions": first.units.normalize_actions,
            "clip_actions": first.units.clip_actions,
            "multiagent": {
                # The scenario is played with these in place of what was exported, whose recipes are in the files.
                "policies": {name: {"scripted": RANDOM} for name in exported},
                "policy_mapping_fn": _who_plays(exported),
            },
        }
        setup = resolve(compose(changes.applied(raw), str(path)))
        sources = {name: f"{path}#{name}" for name in exported} | dict(changes.policies)
        playing = cast(setup, build_policies(setup.policies, setup.task.kinds), sources)
    return Playable(path, trusted, setup, playing.policies, playing, frozenset(sources))


def _who_plays(exported: dict[PolicyID, Exported]) -> dict[str, PolicyID]:
    """Agents, or patterns of them, to policies: one of the agent's own name, else the only one for such agents."""
    found: dict[str, PolicyID] = {}
    for name, policy in exported.items():
        for seat in _seats_of(policy):
            agent = seat.split("[")[0]
            if agent in exported:
                found[agent] = agent
            elif found.setdefault(agent, name) != name:
                raise ConfigError(
                    f"agent {agent!r} could be played by the exported policies {found[agent]!r} and {name!r}. Give the folder "
                    "of one of them, or the run itself."
                )
    return found


def _seats_of(policy: Exported) -> list[str]:
    """The seats that the policy had in its run; exports of earlier versions tell only those that it could have."""
    plays = policy.about.get("plays")
    if not isinstance(plays, list) or not plays:
        return list(policy.kind.agents)
    return [seat for seat in policy.kind.agents if seat in plays]
