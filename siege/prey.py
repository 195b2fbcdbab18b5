"""Finished runs whose files are damaged and forged: a run, a recording and an export, in one folder that may be copied."""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from siege.canary import Canary, home_of
from siege.child import Command, Ended, Limits, run
from siege.same import come_to
from siege.victims import write_victim

PREYS = ("ppo", "qmix", "population", "recurrent")
MORE = 10  # iterations to which a finished run (of 8) is resumed
CASE = Limits(seconds=20.0)

COMMANDS: dict[str, Command] = {
    "resume": Command(["run", "--resume", "run", "--stop-iters", str(MORE), "--quiet"]),
    "rollout": Command(["rollout", "run", "--json", "--episodes", "3"]),
    "rollout best": Command(["rollout", "run/checkpoints/best", "--json", "--episodes", "3"]),
    "exploit": Command(["exploit", "run", "--json", "--timesteps", "64", "--episodes", "4", "--max-nodes", "2000"]),
    "export": Command(["export", "run", "--out", "exported_again"]),
    "crossplay": Command(["crossplay", "run", "random", "--episodes", "4", "--json"]),
    "runs": Command(["runs", ".", "--json"]),
    "load": Command(["run", "load.yaml", "--local-dir", "loaded", "--quiet"]),
    "load_policy": Command(["export"], module="siege.ask"),
    "exported player": Command(["rollout", "run", "--json", "--episodes", "3", "--policy", "POLICY=export#POLICY"]),
    "replay": Command(["replay", "recording", "--json", "--episode", "1"]),
    "learn from": Command(["run", "learn.yaml", "--local-dir", "learned", "--quiet"]),
}
READS: dict[str, tuple[str, ...]] = {  # which commands look at files of this folder at all
    "run/checkpoints/best": ("rollout best",),
    "run/checkpoints": ("resume", "rollout", "exploit", "export", "crossplay", "load", "exported player"),
    "run": ("resume", "runs", "rollout"),
    "recording": ("replay", "learn from"),
    "export": ("load_policy", "exported player"),
}


@dataclass
class Prey:
    """A pristine folder, and what each command says about it, leaves and does besides."""

    name: str
    folder: Path
    policy: str = ""
    said: dict[str, str] = field(default_factory=dict)
    left: dict[str, Any] = field(default_factory=dict)
    habits: frozenset[str] = frozenset()  # what the canary hears from honest files

    def command(self, name: str) -> Command:
        chosen = COMMANDS[name]
        return Command([word.replace("POLICY", self.policy) for word in chosen.arguments], chosen.module)

    def copy(self, folder: Path) -> Path:
        """A fresh copy to be attacked."""
        shutil.copytree(self.folder, folder / "inside")
        return folder / "inside"


def build_prey(name: str, folder: Path) -> Prey:
    """Train, record and export; raises if an honest command fails."""
    inside = folder / "inside"
    file = write_victim(name, inside, keep_checkpoints=3)
    _must(Command(["run", str(file), "--local-dir", "trained", "--quiet"]), inside)
    (trained,) = (inside / "trained" / "victim").iterdir()
    trained.rename(inside / "run")
    shutil.rmtree(inside / "trained")
    _must(Command(["rollout", "run", "--episodes", "4", "--explore", "--save", "recording"]), inside)
    _must(Command(["export", "run", "--out", "export"]), inside)
    _write_followers(name, inside)
    prey = Prey(name, inside)
    exported = sorted(path.name for path in (inside / "export").iterdir())
    prey.policy = next((policy for policy in exported if policy.endswith(".answer")), exported[0])  # one that plays
    for leftover in ("stdout", "stderr"):
        (inside / leftover).unlink()
    return prey


def _write_followers(name: str, inside: Path) -> None:
    """Scenarios that learn from the recording and begin with the run's policies."""
    keys = yaml.safe_load((inside / f"{name}.yaml").read_text())
    policies = [path.name for path in sorted((inside / "export").iterdir())]
    stop = {"training_iteration": 1}
    learn = {"env", "env_config", "seed", "name"} & keys.keys()
    cloned = {key: keys[key] for key in learn} | {"algo": {"name": "bc", "train_batch_size": 8}}
    cloned |= {"input": "recording", "stop": stop, "evaluation": {"interval": 0}}
    (inside / "learn.yaml").write_text(yaml.safe_dump(cloned))
    loaded = {**keys, "stop": stop, "load": {policies[0]: "run"}}
    if "population" in keys:  # whose members are not loaded
        loaded.pop("population")
        loaded["multiagent"], loaded["load"] = {"policies": {"p": {}}}, {"p": f"run#{policies[0]}"}
    (inside / "load.yaml").write_text(yaml.safe_dump(loaded))


def observe(prey: Prey, folder: Path) -> None:
    """Note what every command does with the honest files."""
    heard: set[str] = set()
    for name in COMMANDS:
        inside = prey.copy(folder / name)
        ended = run(prey.command(name), inside, limits=CASE, environment=home_of(inside), at_start=Canary(inside).arm)
        if ended.code != 0:
            raise RuntimeError(f"{prey.name}, {name}: fails on honest files: {ended.said}")
        heard |= set(ended.alarms)
        prey.said[name], prey.left[name] = plain_text(ended), left_behind(name, inside)
        shutil.rmtree(folder / name)
    prey.habits = frozenset(heard)


def left_behind(name: str, inside: Path) -> dict[str, Any]:
    """What a command has written, as far as it is the same each time."""
    if name == "resume":
        return come_to(inside / "run")
    if name == "export":
        files = [file for file in sorted((inside / "exported_again").rglob("*")) if file.is_file()]
        return {str(f.relative_to(inside)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}
    if name in ("load", "learn from"):
        (made,) = (inside / {"load": "loaded", "learn from": "learned"}[name]).glob("*/*")
        return come_to(made)
    return {}


def plain_text(ended: Ended) -> str:
    """What was printed, with the exit code, without what differs between two equal runs."""
    text = re.sub(r"/[\w./=,-]*/inside/", "", ended.stdout)
    text = re.sub(r"\d{4}-\d\d-\d\d[ _]\d\d[-:]\d\d[-:]\d\d|_[0-9a-f]{5}_", "", text)
    text = re.sub(r'("?seconds"?: |"?newest"?: )\S+', "", text)
    return f"{ended.code}\n{text}"


def _must(command: Command, folder: Path) -> None:
    ended = run(command, folder, limits=Limits(seconds=120.0))
    if ended.code != 0:
        raise RuntimeError(f"{command} fails on honest files: {ended.said}")


class Stable:
    """Preys, made when somebody first wants them."""

    def __init__(self, folder: Path, count: int = len(PREYS)) -> None:
        self.folder, self.count = folder, count
        self._preys: dict[str, Prey] = {}

    def preys(self) -> list[Prey]:
        """With what honest commands do to them."""
        found = [self.one(name) for name in PREYS[: self.count]]
        for prey in found:
            if not prey.said:
                observe(prey, self.folder / f"{prey.name}_observed")
        return found

    def one(self, name: str) -> Prey:
        if name not in self._preys:
            shutil.rmtree(self.folder / name, ignore_errors=True)
            self._preys[name] = build_prey(name, self.folder / name)
        return self._preys[name]
