"""Training of the demo, and what the checkpoints of a run believe about the two-step game."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from marl.algos.plan import build_learner
from marl.data.task import PolicyID
from marl.errors import CheckpointError
from marl.play.playable import Playable
from marl.policies.policy import Policy
from marl.runs.checkpoint import has_part, read_part
from marl.runs.directories import told_state
from marl.runs.manifest import BEST, numbered
from marl.runs.restoring import put_to_use
from marl.scenario.resolve import Setup
from marl.training.trainer import Trainer
from marl.watch.demo_notes import FOLDER, note, read_notes
from marl.watch.demo_runs import command, demo_scenario, shown_keys
from marl.watch.joint_values import Beliefs, beliefs, check_readable, mixers
from marl.watch.tasks.episode_answer import shorter
from marl.watch.two_step_truth import best_return, greedy_return, true_values
from marl.watch.workers import Tell


def train(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """One run of the demo to its end, or until the file ``stop`` is there; notes what it believes on the way."""
    algo, seed, steps = arguments["algo"], arguments["seed"], arguments["steps"]
    root, stop = Path(arguments["root"]), Path(arguments["stop"])
    with Trainer(scenario=demo_scenario(algo, seed, steps)) as trainer:
        directory = trainer.store.create(root / FOLDER)
        name = directory.relative_to(root).as_posix()
        note(
            directory,
            {
                **_about(trainer.setup, trainer.policies),
                "run": name,
                "command": command(algo, seed, steps),
                "steps": steps,
            },
        )
        note(directory, _point(trainer))  # what random weights say, to see where it comes from
        tell(0, steps, name)
        with told_state(directory) as ended:
            done = False
            while not done and not stop.exists():
                done = bool(trainer.train()["done"])
                note(directory, _point(trainer))
                tell(trainer.timesteps_total, steps, name)
            trainer.save()
            ended.append("finished" if done else "stopped")
    return {"run": name, "done": done}


def _about(setup: Setup, policies: Mapping[PolicyID, Policy]) -> dict[str, Any]:
    """What is shown of a run beside its values; refuses one that has none."""
    config, scenario = check_readable(setup, policies), setup.scenario
    return {
        "algo": scenario.preset.name,
        "mixer": config.mixer,
        "gamma": config.gamma,
        "truth": true_values(scenario.env_config, config.gamma),
        "best": best_return(scenario.env_config),
        "keys": shown_keys(scenario),
    }


def _point(trainer: Trainer) -> dict[str, Any]:
    mixer = next(mixers(trainer.learners), None)
    believed = beliefs(trainer.setup, trainer.policies, mixer)
    return point(trainer.timesteps_total, believed, trainer.scenario.env_config)


def point(steps: int, believed: Beliefs, env_config: Any) -> dict[str, Any]:
    """A moment of learning, as the page reads it."""
    told: dict[str, Any] = shorter(believed.to_json())
    return {"steps": steps, "reward": greedy_return(env_config, believed.greedy), **told}


# -- of a run that is there --------------------------------------------------------------------------------------------


def values(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """What a run believed over time: as it has noted itself, or by its checkpoints."""
    noted = read_notes(Path(arguments["folder"]))
    if noted is None:
        return of_checkpoints(arguments, tell)
    about, points = noted
    return {**about, "run": arguments["run"], "points": points}


def of_checkpoints(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """What a run's checkpoints believe, oldest first, ``best`` among them by its time."""
    folders = list(_checkpoints(Path(arguments["folder"])))
    if not folders:
        raise CheckpointError("this run has no checkpoint yet: its values are shown as soon as there is one.")
    about: dict[str, Any] = {}
    points: dict[int, dict[str, Any]] = {}
    for number, folder in enumerate(folders):
        tell(number, len(folders), folder.name)
        playable = Playable.open(folder, frozenset(arguments["allow"]))
        about = {**_about(playable.setup, playable.learned), "run": arguments["run"]}
        believed = beliefs(playable.setup, playable.learned, _mixer_of(playable, about["mixer"]))
        steps = int(read_part(folder, "run")["counters"]["timesteps_total"])
        points[steps] = {**point(steps, believed, playable.setup.scenario.env_config), "checkpoint": folder.name}
    return {**about, "points": [points[steps] for steps in sorted(points)]}


def _checkpoints(directory: Path) -> Iterator[Path]:
    folder = directory / "checkpoints"
    if (folder / BEST).is_dir():
        yield folder / BEST
    yield from numbered(folder)


def _mixer_of(playable: Playable, mixer: str) -> nn.Module | None:
    """As the checkpoint has it; older ones keep policies alone, of which only a sum can be made without one."""
    if mixer == "none" or (mixer == "monotonic" and not has_part(playable.folder, "learners")):
        return None
    setup, folder = playable.setup, playable.folder
    learner = build_learner(setup.plans[0], setup.roles, playable.learned, setup.task, setup.scenario.seed)
    if mixer == "monotonic":
        with put_to_use(folder, "learners"), playable.trusted():
            learner.load_state_dict(read_part(folder, "learners")[0])
    return next(mixers([learner]), None)
