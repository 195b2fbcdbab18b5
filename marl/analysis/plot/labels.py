"""Other names of lines and panels: ``--label NAME=TEXT``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from marl.analysis.plot.groups import Grouped, Groups
from marl.errors import ConfigError, did_you_mean


def check_labels(texts: Sequence[str]) -> None:
    for text in texts:
        if "=" not in text:
            raise ConfigError(f"--label {text!r}: expected NAME=TEXT, such as ppo=PPO.")


def relabelled(grouped: Grouped, texts: Sequence[str]) -> Grouped:
    """The same runs, with the names of lines and panels that were asked for; a name that is not there is refused."""
    known = [*grouped.lines, *grouped.groups]
    labels = dict(_reading(text, known) for text in texts)
    _check_unique(grouped.lines, labels)
    _check_unique(list(grouped.groups), labels)
    groups: Groups = {}
    for env, panel in grouped.groups.items():
        lines = groups.setdefault(labels.get(env, env), {})
        for name, runs in panel.items():
            lines[labels.get(name, name)] = runs
    return replace(grouped, groups=groups)


def _reading(text: str, known: Sequence[str]) -> tuple[str, str]:
    """Name and label. Names may hold an equals sign themselves, as in ``lr=0.1=small steps``: the longest known one counts."""
    name, _, label = text.rpartition("=")
    while name not in known:
        name, found, more = name.rpartition("=")
        label = f"{more}={label}"
        if not found:
            meant = text.rpartition("=")[0]
            raise ConfigError(
                f"--label {text!r}: no line or panel is called {meant!r}.{did_you_mean(meant, known)} There are: "
                f"{', '.join(known)}."
            )
    return name, label


def _check_unique(names: Sequence[str], labels: Mapping[str, str]) -> None:
    taken: dict[str, str] = {}
    for name in names:
        label = labels.get(name, name)
        if label in taken:
            raise ConfigError(
                f"--label: {taken[label]!r} and {name!r} would both be called {label!r}. Give them different names."
            )
        taken[label] = name
