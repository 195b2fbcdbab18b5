"""A run as it lies on the disk, which may come from a stranger: read, and followed only as far as it is safe.

Names in its scenario are a matter of ``marl.trust``. Places, that is paths and hosts, are not followed at all: playing
policies needs none of them, and who goes on with a run gives them again.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any

from marl.data.task import Array, PolicyID
from marl.envs.adapters.permits import places_given
from marl.envs.external.contract import EXTERNAL
from marl.envs.external.server_config import ServerConfig
from marl.errors import CheckpointError, ConfigError, did_you_mean, printable
from marl.inputs import check_texts, real_path
from marl.old_names import with_current_names
from marl.policies.build import build_policies
from marl.policies.loading import set_weights
from marl.policies.policy import Policy
from marl.registry import used_packages
from marl.runs.checkpoint import TO_PLAY, find_checkpoint, read_part
from marl.runs.loggers import leads_out
from marl.runs.old_defaults import with_old_defaults
from marl.runs.resume import TO_RESUME, find_resumable
from marl.scenario.config import Scenario
from marl.scenario.describe import can_be_replayed
from marl.scenario.load import apply, compose
from marl.scenario.resolve import Setup, resolve
from marl.trust import current, only_modules

PLACES = {
    "address": "the Ray cluster that it joins",
    "input": "the recorded episodes that it learns from",
    "output": "the directory that it writes episodes to",
    "loggers": "the services that its results are sent to",
    "external.host": "the address at which it listens to clients",
    "external.token_file": "the file with the token of its clients",
    "external.tls_cert": "the certificate that its server shows",
    "external.tls_key": "the private key of its server",
}
"""Keys of a scenario that are paths or hosts."""
STAYS_HERE: Mapping[str, Callable[[Any], bool]] = {
    "external.host": lambda value: bool(value == ServerConfig().host),
    "loggers": lambda value: not leads_out(value or []),  # most write into the run directory
}
"""Values of such keys that are no place elsewhere."""
EMPTY: Mapping[str, object] = {"loggers": []}
"""What says that there is no such place; null for all other keys."""
WITH_RECORDINGS = ("off_policy_estimator", "off_policy_interval", "off_policy_gamma")
"""Keys that say nothing without ``input``."""
PLACES_OF_NEW_RUNS = {**PLACES, "load": "the checkpoints that its policies start from"}
"""Only a run that begins follows ``load``: one that is resumed has weights of its own."""


class SavedRun:
    """A run, opened at one checkpoint: nothing in its files is called that the user did not allow.

    ``words`` are texts that he gave himself in the same command (see ``Trust``). ``remedy`` says what helps where the run was
    given Python objects that cannot be found by name; without it, such a run is not refused here.
    """

    def __init__(
        self, folder: Path, allow: Collection[str] = (), words: Iterable[str] = (), remedy: str | None = None
    ) -> None:
        self.folder = folder
        self._allow, self._words, self._remedy = frozenset(allow), frozenset(words), remedy

    @classmethod
    def open(
        cls,
        path: Path | str,
        allow: Collection[str] = (),
        words: Iterable[str] = (),
        need: Collection[str] = TO_PLAY,
        remedy: str | None = None,
    ) -> SavedRun:
        """The newest checkpoint of a run whose parts in ``need`` are undamaged, or the one that is named.

        One that is named is taken as it is; ``read_part`` verifies each of its parts before it is loaded.

        ``TO_PLAY`` is enough for everything but training; ``TO_RESUME`` asks for all that training needs.
        """
        if set(TO_RESUME) <= set(need):
            folder = find_resumable(Path(path))
        else:
            folder = find_checkpoint(Path(path), need)
        return cls(folder, allow, words, remedy)

    @property
    def directory(self) -> Path | None:
        """The run directory, if the checkpoint lies in one."""
        return directory_of(self.folder)

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """As it was stored, with the names that things have today, and nothing that could upset a terminal."""
        return stored_scenario(self.folder)

    @cached_property
    def weights(self) -> dict[PolicyID, dict[str, Array]]:
        """What each policy has learned."""
        weights: dict[PolicyID, dict[str, Array]] = read_part(self.folder, "policies")
        return weights

    @property
    def can_be_replayed(self) -> bool:
        """Whether its files alone are enough to build it again."""
        return can_be_replayed(self.scenario)

    def to_play(self) -> dict[str, Any]:
        """The scenario for playing alone: in this process, without places, and without the env of evaluations."""
        # An env of evaluations alone may need files or packages that nobody has here.
        evaluation = dict(self.scenario.get("evaluation") or {})
        evaluation.update(env=None, env_config=None)
        to_play = without_places(self.scenario)
        # Collection as well: async would ask for Ray workers.
        to_play.update(num_workers=0, pool="auto", collection="auto", evaluation=evaluation)
        if to_play.get("env") == EXTERNAL:
            # Nobody can evaluate there without an env of its own, nor wait for the outcome.
            evaluation["interval"] = 0
            for key in ("goal", "stop"):
                to_play[key] = _without_evaluations(to_play.get(key) or {})
        return to_play

    def trusted(self) -> AbstractContextManager[None]:
        """Around all that follows names in the files."""
        return only_modules(self._allow, self._words)

    def compose(self, raw: Mapping[str, Any]) -> Scenario:
        """A scenario that was made of this run's; refused where Python objects are left in it that no name finds."""
        if self._remedy is not None and not can_be_replayed(raw):
            problem = f"{self.folder} comes from a run that was given Python objects which cannot be found by name."
            raise CheckpointError(f"{problem} {self._remedy}".rstrip())
        with self.trusted():
            return compose(raw, str(self.folder))

    def resolve(self, changes: Mapping[str, Any] | None = None) -> Setup:
        """Env, policies and mapping of the run as ``to_play`` has it; ``changes`` are keys with other values."""
        raw = self.to_play()
        raw.update(changes or {})
        scenario = self.compose(raw)
        # Resolving builds the env and the models, so it follows names as well.
        with self.trusted():
            return resolve(scenario)

    @cached_property
    def setup(self) -> Setup:
        """The run in its own env."""
        return self.resolve()

    def policy(self, name: PolicyID) -> Policy:
        """One policy with what it has learned, ready to play."""
        self.check_policy(name)
        return self.policies(self.setup, [name])[name]

    def policies(
        self, setup: Setup, names: Iterable[PolicyID] | None = None, remedy: str = ""
    ) -> dict[PolicyID, Policy]:
        """The policies of a setup of this run with their weights; of others than ``names`` the weights are left as they are.

        All are built, because policies may share layers.
        """
        with self.trusted():
            policies = build_policies(setup.policies, setup.task.kinds)
        if names is None:
            names = list(policies)
        for name in names:
            if name not in self.weights:
                problem = f"{self.folder} has no policy {name!r}; it has {', '.join(self.weights)}."
                raise CheckpointError(f"{problem} {remedy.format(name=name)}".rstrip())
            set_weights(policies[name], self.weights[name], f"{self.folder}, policy {name!r}")
        return policies

    def check_policy(self, name: PolicyID) -> None:
        """Refuse the name of a policy that the run does not have."""
        if name in self.weights:
            return
        known = ", ".join(self.weights)
        raise CheckpointError(
            f"{self.folder} has no policy {name!r}. It has {known}.{did_you_mean(name, self.weights)}"
        )

    def find_member(self, name: str) -> tuple[PolicyID, int | None]:
        """The policy that is meant and, for ``main.answer/3``, the number of a mixture's member."""
        mixture, slash, number = name.rpartition("/")
        if name in self.weights or not slash:
            self.check_policy(name)
            return name, None
        self.check_policy(mixture)
        count = len(self.weights[mixture].get("chances", ()))
        if not number.isdecimal() or int(number) >= count:
            has = "It is one policy, not a mixture."
            if count:
                has = f"It has the members 0 to {count - 1}."
            raise CheckpointError(f"{self.folder}: policy {mixture!r} has no member {number!r}. {has}")
        return mixture, int(number)


def directory_of(checkpoint: Path) -> Path | None:
    """The run directory of a checkpoint folder, if it lies in one."""
    if checkpoint.parent.name != "checkpoints":
        return None
    return checkpoint.parent.parent


def stored_scenario(folder: Path) -> dict[str, Any]:
    """The scenario of a checkpoint's run, see ``SavedRun.scenario``."""
    scenario = read_part(folder, "run")["scenario"]  # `read_part` has seen that there is one
    if not isinstance(scenario.get("env"), str):
        raise CheckpointError(f"{folder} is damaged: its part 'run' holds no scenario. Take another checkpoint.")
    # Before anything else looks at it: names and texts in it end up in messages on a terminal.
    check_texts(scenario, f"{folder}, scenario")
    return with_old_defaults(with_current_names(scenario))


def check_stays_inside(directory: Path) -> None:
    """Refuse to write into a run directory out of which a link leads: a stranger's would write over files elsewhere."""
    if current() is None:  # the user gave the scenario, and knows his directory
        return
    home = real_path(directory)
    for folder, below, files in os.walk(directory):
        for name in [*below, *files]:
            entry = Path(folder) / name
            # By where it leads in the end: a link to a link inside may still lead out.
            if entry.is_symlink() and not real_path(entry).is_relative_to(home):
                raise CheckpointError(
                    f"{printable(entry)} is a link to {printable(entry.readlink())}, out of the run directory, so the run is "
                    "not continued there. Put the files in its place, or give the scenario file: marl run FILE --resume RUN."
                )


def without_places(described: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario for somebody who only looks: it reads no recordings, writes none, joins no cluster."""
    places = {key.partition(".")[0]: None for key in PLACES}
    looking = {**described, "load": {}, "output_format": "npz", **places, "loggers": []}
    for key in WITH_RECORDINGS:
        looking.pop(key, None)
    return looking


def place_in(described: Mapping[str, Any], key: str) -> Any:
    """The path or host under a key, or nothing; this machine itself is no place elsewhere."""
    section, _, name = key.rpartition(".")
    found = described if not section else described.get(section) or {}
    value = found.get(name) if isinstance(found, Mapping) else None
    is_here = STAYS_HERE.get(key)
    if is_here is not None and is_here(value):
        return None
    return value


def with_env_again(to_play: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario with what the user says of the env again: ``{"env_config.filename": PATH}``."""
    raw = dict(to_play)
    for key, value in changes.items():
        if key.split(".")[0] not in ("env", "env_config"):
            raise ConfigError(f"--set {key}=... changes nothing here. What counts: env, env_config.KEY. Drop it.")
        apply(raw, key, value)
    return raw


def check_given_again(
    described: Mapping[str, Any],
    given: Collection[str],
    where: object,
    places: Mapping[str, str] = PLACES,
    in_python: bool = False,
) -> None:
    """Refuse to go on with a run whose places were not given again by the user; ``given`` are the keys that he gave."""
    for key, meaning in places.items():
        value = place_in(described, key)
        if not value or key in given or key.partition(".")[0] in given:
            continue
        if in_python:
            option, without = f"{key}={value!r}", f"{key}={EMPTY.get(key)}"
        else:
            option, without = f"--set {place_option(key, value)}", f"--set {key}={EMPTY.get(key, 'null')}"
        raise ConfigError(
            f"the scenario in {where} has {key}: {value!r}, {meaning}. A place that stands in a file is not followed "
            f"unless you give it again: {printable(option)} to go on as before, {without} to go on without it."
        )


def _without_evaluations(conditions: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in conditions.items() if not field.startswith("evaluation")}


def place_option(key: str, value: object) -> str:
    """``output=DIR`` as it is typed behind ``--set``."""
    if not isinstance(value, str):
        value = json.dumps(value)
    # Quoted: the user pastes it into a shell, and the value may be a stranger's.
    return shlex.quote(f"{key}={value}")


def places_again(described: Mapping[str, Any], places: Mapping[str, str] = PLACES) -> list[str]:
    """The options with which the owner of a run or a search goes on with it: its own places, then files of its envs."""
    options = []
    for key in places:
        value = place_in(described, key)
        if value:
            options.append(place_option(key, value))
    env_config = described.get("env_config") or {}
    options += places_given(described.get("env"), env_config)
    evaluation = described.get("evaluation") or {}
    env_config = evaluation.get("env_config") or {}
    options += places_given(evaluation.get("env"), env_config, "evaluation.env_config")
    return [f"--set {option}" for option in options]


def command_again(command: str, directory: Path, places: Iterable[str] = ()) -> str:
    """What the owner types to go on: of a file, his modules, paths and hosts are only used if he says so again."""
    allowed = [f"--allow {package}" for package in used_packages()]
    return " ".join([command, "--resume", shlex.quote(str(directory)), *allowed, *places])
