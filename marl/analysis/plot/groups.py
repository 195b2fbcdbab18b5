"""Which runs stand in one panel, and which of them are one line.

A panel is an env. A line is an algorithm, or a setting: without ``by``, runs of one env go together when they have the same
algorithm and the same keys, and lines are called after what they differ in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from marl.analysis.compare.compare import SAME_ENV, Run
from marl.analysis.compare.keys import differences, told
from marl.analysis.compare.runs import different
from marl.analysis.plot.runs import PlotRun, listed
from marl.analysis.report.curves import look_into
from marl.errors import ConfigError, did_you_mean
from marl.runs.resume_check import FREE

ALGO = "algo.name"
MOST_KEYS = 2  # in the name of a line that nobody has asked for

Groups: TypeAlias = dict[str, dict[str, list[Run]]]
"""Runs by the name of their panel and the name of their line."""
Word: TypeAlias = Callable[[PlotRun], str]

WORDS: Mapping[str, Word] = {
    "source": lambda found: found.source,
    "name": lambda found: str(found.run.params.get("name")),
    "run": lambda found: found.run.name,
}
"""What lines may be told apart by, besides keys of the scenario."""


@dataclass(frozen=True)
class Grouped:
    groups: Groups
    notes: Sequence[str]
    by: Sequence[str]

    def runs_of(self, env: str) -> list[Run]:
        """All runs of a panel."""
        found: list[Run] = []
        for members in self.groups[env].values():
            found += members
        return found

    @property
    def lines(self) -> list[str]:
        found: dict[str, None] = {}
        for panel in self.groups.values():
            found |= dict.fromkeys(panel)
        return list(found)


def group(found: Sequence[PlotRun], by: Sequence[str] = ()) -> Grouped:
    """Runs by panel and line; of runs with the same keys and the same seed the newest counts."""
    panels = _panels(found)
    chosen = list(by) or _by_themselves(list(panels.values()))
    for word in chosen:
        _check_word(word, found)
    names = {id(one): _line_name(one, chosen) for one in found}
    order = _in_order(found, chosen, names)
    groups: Groups = {}
    notes: list[str] = []
    for title, members in panels.items():
        # In the order of the whole figure, whichever run of this env came first.
        lines: dict[str, list[Run]] = {name: [] for name in order}
        # Oldest first, in whatever order the words of the command line were.
        for one in sorted(members, key=lambda one: one.written):
            lines[names[id(one)]].append(one.run)
        groups[title] = {}
        for name, mine in lines.items():
            if not mine:
                continue
            groups[title][name], said = _counted(name, mine)
            notes += said
    return Grouped(groups, list(dict.fromkeys(notes)), chosen)


def _counted(name: str, runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """The runs of a line that count, and what a reader should know about them."""
    kept, dropped = _newest(runs)
    notes = _mixed(name, kept)
    if dropped:
        notes.append(
            f"{name}: of several runs with the same keys and seed the newest counts; left out: {listed(dropped)}"
        )
    return kept, notes


def _mixed(name: str, runs: Sequence[Run]) -> list[str]:
    """A note where a line is made of runs of different settings."""
    for run in runs[1:]:
        changed = different(runs[0].params, run.params)
        if changed:
            return [f"{name}: runs of different settings are taken together: {told(changed)}"]
    return []


def _newest(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Runs that differ in their seed or in a key that changes numbers; later ones stand for earlier ones."""
    kept: dict[str, Run] = {}
    dropped: list[str] = []
    for run in runs:  # oldest first
        changing = {key: value for key, value in run.params.items() if key not in FREE}
        same = json.dumps(changing, sort_keys=True, default=str)
        if same in kept:
            dropped.append(kept[same].name)
        kept[same] = run
    return list(kept.values()), dropped


def _panels(found: Sequence[PlotRun]) -> dict[str, list[PlotRun]]:
    """Runs by the title of their env."""
    envs: list[dict[str, Any]] = []
    by_env: list[list[PlotRun]] = []
    for one in found:
        env = _env_of(one.run)
        # By the same rule as `differences`, by which panels are named: 1 is 1.0, and nothing is an empty section.
        number = next((place for place, known in enumerate(envs) if not differences(known, env)), len(envs))
        if number == len(envs):
            envs.append(env)
            by_env.append([])
        by_env[number].append(one)
    return dict(zip(_titles(envs), by_env, strict=True))


def _env_of(run: Run) -> dict[str, Any]:
    """What makes up the env of a run; an empty section says as much as none."""
    found = {}
    for key in SAME_ENV:
        value = look_into(run.params, key.split("."))
        found[key] = value or None
    return found


def _titles(envs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The envs' names, as short as they can be told apart, with the keys in which envs of one name differ."""
    names = [str(env["env"]) for env in envs]
    short = {name: name.replace(":", "/").rpartition("/")[2] for name in names}
    # Two libraries may call their envs alike.
    if len(set(short.values())) < len(short):
        short = dict(zip(names, names, strict=True))
    titles = _with_keys(envs, short, _short_key)
    # Runs of panels of one name would be lost.
    if len(set(titles)) < len(titles):
        titles = _with_keys(envs, short, _whole_key)
    return titles


def _with_keys(
    envs: Sequence[Mapping[str, Any]], short: Mapping[str, str], word: Callable[[str, Any], str]
) -> list[str]:
    """Names with a word for each key in which an env differs from others of its name."""
    titles = []
    for env in envs:
        words = [short[str(env["env"])]]
        for key, value in _own_keys(env, envs).items():
            words.append(word(key, value))
        titles.append(" ".join(words))
    return titles


def _short_key(key: str, value: Any) -> str:
    """``game=climbing``."""
    return f"{key.rpartition('.')[2]}={value}"


def _whole_key(key: str, value: Any) -> str:
    """``env_config.game="climbing"``."""
    return f"{key}={json.dumps(value)}"


def _own_keys(env: Mapping[str, Any], envs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The keys of an env in which it differs from others of its name."""
    keys: dict[str, Any] = {}
    for other in envs:
        if other["env"] != env["env"]:
            continue
        for one in differences(env, other):
            # What an env does not have tells others apart, not itself.
            if one.first is not None:
                keys[one.key] = one.first
    return keys


def _by_themselves(panels: Sequence[Sequence[PlotRun]]) -> list[str]:
    """What tells the lines apart when nobody has said it: the algorithm, and keys in which its runs differ in one env."""
    algos: set[str] = set()
    keys: dict[str, None] = {}
    for members in panels:
        algos |= {_value(one, ALGO) for one in members}
        keys |= dict.fromkeys(_keys_that_differ(members))
    if keys and len(keys) <= MOST_KEYS and len(algos) == 1:
        # One algorithm in several settings: its name in every line would say nothing.
        return list(keys)
    if len(keys) <= MOST_KEYS:
        return [ALGO, *keys]
    return _by_names(panels, list(keys))


def _by_names(panels: Sequence[Sequence[PlotRun]], keys: Sequence[str]) -> list[str]:
    """Names of scenarios, or words of the command line, where these are enough."""
    for word in ("name", "source"):
        if all(_tells_apart(word, members) for members in panels):
            return [word]
    raise ConfigError(
        f"the runs of one algorithm differ in {len(keys)} keys: {listed(keys)}. Say by --by which of them tell the "
        f"lines apart, such as --by {keys[0]}; others are taken together."
    )


def _keys_that_differ(members: Sequence[PlotRun]) -> Iterator[str]:
    """Keys in which runs of the same algorithm and env differ."""
    first: dict[str, Run] = {}
    for one in members:
        reference = first.setdefault(_value(one, ALGO), one.run)
        for changed in different(reference.params, one.run.params):
            yield changed.key


def _tells_apart(word: str, members: Sequence[PlotRun]) -> bool:
    """Whether runs that share this word have the same settings."""
    first: dict[str, Run] = {}
    for one in members:
        reference = first.setdefault(WORDS[word](one), one.run)
        if different(reference.params, one.run.params):
            return False
    return True


def _check_word(word: str, found: Sequence[PlotRun]) -> None:
    if word in WORDS:
        return
    known: dict[str, None] = {}
    for one in found:
        known |= dict.fromkeys(_flat(one.run.params))
    if word not in known:
        raise ConfigError(
            f"--by {word}: no run has this key.{did_you_mean(word, [*WORDS, *known])} Give a key of the scenario such as "
            f"algo.lr, or one of {', '.join(WORDS)}."
        )


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Dotted names of all keys, sections included."""
    for key, value in tree.items():
        name = f"{prefix}{key}"
        yield name
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")


def _value(one: PlotRun, word: str) -> Any:
    if word in WORDS:
        return WORDS[word](one)
    return look_into(one.run.params, word.split("."))


def _line_name(one: PlotRun, by: Sequence[str]) -> str:
    """``ppo lr=0.01``: algorithms and names speak for themselves, other keys are named."""
    parts = []
    for word in by:
        value = _value(one, word)
        if word in WORDS or word == ALGO:
            parts.append(str(value))
        else:
            parts.append(f"{word.rpartition('.')[2]}={value}")
    return " ".join(parts)


def _in_order(found: Sequence[PlotRun], by: Sequence[str], names: Mapping[int, str]) -> list[str]:
    """Names of all lines as they come; by one key that is a number, from the smallest to the largest."""
    values: dict[str, Any] = {}
    for one in found:
        values[names[id(one)]] = _value(one, by[0])
    kinds = {type(value) for value in values.values()}
    # Not isinstance, to which true is an int.
    if len(by) == 1 and kinds <= {int, float}:
        return sorted(values, key=lambda name: float(values[name]))
    return list(values)
