"""What a run leaves behind: its directory, its checkpoints, and the way back from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marl.data.episode import EpisodeStats
from marl.data.task import PolicyID
from marl.errors import CheckpointError, did_you_mean
from marl.policies.policy import Policy
from marl.registry import only_modules
from marl.scenario.describe import can_be_replayed, describe
from marl.scenario.load import compose
from marl.training.checkpoint import (
    checkpoint_name,
    find_checkpoint,
    has_part,
    keep_newest,
    read_part,
    strip,
    write_checkpoint,
)
from marl.training.files import RunFiles, new_run_directory, run_name, to_plain
from marl.training.restoring import put_to_use
from marl.training.result import without_wall_clock
from marl.training.same_run import check_same
from marl.training.sources import load_source_state, source_state

if TYPE_CHECKING:
    from marl.populations.population import Population
    from marl.training.trainer import Trainer

TO_PLAY = (
    "run",
    "policies",
    "population",
)  # parts that are enough to play; older checkpoints and `best` hold only these
COUNTERS = (
    "decisions_lost",
    "iteration",
    "timesteps_total",
    "agent_timesteps_total",
    "episodes_total",
    "time_total_s",
    "best_evaluation",
    "trial_id",
    "experiment_id",
)
NOT_KEPT = ("config", "hist_stats", "episode_media")  # of the last result
VERSION = 1


class Store:
    """Files of one trainer. Without a directory nothing is written until one is opened."""

    def __init__(self, trainer: Trainer, directory: Path | None) -> None:
        self.trainer = trainer
        self.directory = directory
        self.files: RunFiles | None = None
        self.newest: Mapping[str, Any] = {}  # the last result, as it stands in result.json
        self._unproven: Path | None = None  # the checkpoint from which no iteration has been made yet
        if directory is not None:
            self.open(directory)

    def open(self, directory: Path) -> None:
        """Use this directory for everything from now on."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.files = RunFiles(directory)
        described = describe(self.trainer.scenario)
        self.files.write_params(described)
        if self.trainer.population is not None and self.trainer.population.round:  # of a run that goes on here
            self.write_population(self.trainer.population)
        if not can_be_replayed(described):
            self.trainer.notes.append(
                "this run was given Python objects that cannot be found by name, so it cannot be replayed from its "
                "files alone; restore needs the same objects again."
            )

    def go_on(self) -> None:
        """Drop what was written after the restored checkpoint; it comes again."""
        assert self.files is not None
        self.files.resume_at(self.trainer.iteration)
        if self.trainer.population is not None:
            self.write_population(self.trainer.population)

    def create(self, local_dir: Path, index: int = 0, params: Mapping[str, object] | None = None) -> Path:
        """Make and open a new run directory under ``local_dir``."""
        trainer, scenario = self.trainer, self.trainer.scenario
        env = scenario.env if isinstance(scenario.env, str) else getattr(scenario.env, "__name__", "env")
        name = run_name(
            scenario.preset.name,
            env,
            trainer.trial_id,
            index,
            params or {"seed": scenario.seed},
            datetime.now(),
        )
        experiment = scenario.name or env.split("/")[-1].replace(":", "_")
        directory = new_run_directory(local_dir, experiment, name)
        self.open(directory)
        return directory

    def written(self, result: Mapping[str, Any]) -> None:
        """Append a result; write the checkpoint that is due."""
        if self.files is None:
            return
        self.newest = self.files.append(result)
        freq = self.trainer.scenario.checkpoint_freq
        if freq and self.trainer.iteration % freq == 0:
            self.save()

    def write_population(self, population: Population) -> None:
        """What a reader wants to know of a population: members, lineage, payoffs."""
        if self.files is not None:
            self.files.write_population(population.as_json() if population.round else None)

    def new_best(self) -> None:
        """The evaluation was the best so far: keep what is needed to play it."""
        if self.directory is not None:
            write_checkpoint(self.directory / "checkpoints" / "best", self._parts(TO_PLAY))

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def save(self, path: Path | None = None) -> Path:
        target = self._save(path)
        self.trainer.hooks("on_checkpoint", trainer=self.trainer, path=target)
        return target

    def _save(self, path: Path | None) -> Path:
        if path is not None:
            return write_checkpoint(path, self._parts())
        if self.directory is None:
            from marl.training.places import default_results

            self.create(default_results())
        assert self.directory is not None
        folder = self.directory / "checkpoints"
        target = write_checkpoint(folder / checkpoint_name(self.trainer.iteration), self._parts())
        for older in folder.glob("checkpoint_*"):
            if older != target:
                with suppress(CheckpointError):  # a damaged older one must not end the run
                    strip(older, TO_PLAY)
        keep_newest(folder, self.trainer.scenario.keep_checkpoints, None)
        return target

    def _parts(self, names: tuple[str, ...] = ("run", "policies", "learners", "workers", "replay")) -> dict[str, Any]:
        trainer = self.trainer
        build: dict[str, Callable[[], Any]] = {
            "run": self._run_part,
            "policies": trainer.get_weights,
            "learners": lambda: [learner.state_dict() for learner in trainer.learners],
            "workers": trainer.workers.state_dict,
            "replay": lambda: [learner.replay_state() for learner in trainer.learners],
        }
        parts = {name: build[name]() for name in names if name in build}
        if trainer.population is not None:
            parts["population"] = trainer.population.state_dict()
        source = source_state(trainer.source, trainer.workers) if "workers" in names else {}
        return {**parts, "source": source} if source else parts

    def _run_part(self) -> dict[str, Any]:
        trainer = self.trainer
        last = without_wall_clock(trainer.last_result)
        return {
            "version": VERSION,
            "scenario": describe(trainer.scenario),
            "counters": {name: getattr(trainer, name) for name in COUNTERS},
            "recent": vars(trainer.recent),
            "last_metrics": trainer.last_metrics,
            "last_evaluation": trainer.last_evaluation,
            "last_result": to_plain({k: v for k, v in last.items() if k not in NOT_KEPT}),
            "callbacks": trainer.hooks.state_dict(),
            "policies_to_train": sorted(trainer.policies_to_train),
            **({"curriculum": trainer.curriculum.state_dict()} if trainer.curriculum.stages else {}),
        }

    def restore(self, path: Path) -> None:
        """Load everything; the trainer must have been built from the same scenario."""
        folder = find_checkpoint(path)
        run = read_part(folder, "run")
        trainer = self.trainer
        for part in ("learners", "workers", "replay"):
            if not has_part(folder, part):
                raise CheckpointError(
                    f"{folder} holds only what is needed to play (older checkpoints and `best` do), so training "
                    "cannot go on from it. Use the newest checkpoint of the run, or start a new run with `load: "
                    f"{{POLICY: {folder}}}`."
                )
        check_same(folder, run["scenario"], describe(trainer.scenario))
        workers = read_part(folder, "workers")
        with put_to_use(folder, "policies"):
            for name, weights in read_part(folder, "policies").items():
                set_weights(trainer.policies[name], weights, f"{folder}, policy {name!r}")
        with put_to_use(folder, "learners"):
            for learner, state in zip(trainer.learners, read_part(folder, "learners"), strict=True):
                learner.load_state_dict(state)
        with put_to_use(folder, "replay"):
            for learner, state in zip(trainer.learners, read_part(folder, "replay"), strict=True):
                learner.load_replay_state(state)
        with put_to_use(folder, "run"):
            self._adopt(run)
        with put_to_use(folder, "workers"):
            trainer.workers.sync_weights()
            trainer.workers.load_state_dict(workers)
        if has_part(folder, "source"):
            with put_to_use(folder, "source"):
                load_source_state(trainer.source, read_part(folder, "source"))
        if trainer.population is not None:
            with put_to_use(folder, "population"):
                trainer.population.load_state_dict(read_part(folder, "population"))
                if trainer.population.round:
                    trainer.population.as_json()  # all of it can be told, lineage and payoffs too
        trainer.learning.align()
        self._unproven = folder
        if self.files is not None:
            self.go_on()

    @contextmanager
    def proven(self) -> Iterator[None]:
        """Around an iteration: a state that was taken from a file and breaks at first use did not fit."""
        if self._unproven is None:
            yield
            return
        with put_to_use(self._unproven):
            yield
        self._unproven = None

    def _adopt(self, run: Mapping[str, Any]) -> None:
        trainer = self.trainer
        for name in COUNTERS:
            if name in run["counters"]:  # older checkpoints know fewer
                setattr(trainer, name, run["counters"][name])
        trainer.recent = EpisodeStats(**run["recent"])
        trainer.last_metrics = run["last_metrics"]
        trainer.last_evaluation = run["last_evaluation"]
        trainer.last_result = run["last_result"]
        if trainer.curriculum.stages:
            trainer.curriculum.load_state_dict(run["curriculum"])
            trainer.workers.stage = trainer.curriculum.stage
        trainer.hooks.load_state_dict(run.get("callbacks"))
        if trainer.scenario.multiagent.policies_to_train == run["scenario"]["multiagent"]["policies_to_train"]:
            trainer.set_policies_to_train(run["policies_to_train"])  # else the new scenario decides

    @staticmethod
    def rebuild(cls: type[Trainer], path: Path, allow: frozenset[str], changes: Mapping[str, Any]) -> Trainer:
        """A trainer from a checkpoint alone; names in it may only point to built-in things and allowed modules."""
        folder = find_checkpoint(path)
        described = read_part(folder, "run")["scenario"]
        if not can_be_replayed({**described, **changes}):
            raise CheckpointError(
                f"{folder} comes from a run that was given Python objects which cannot be found by name. Build the "
                "trainer as before and call restore, or give them again: Trainer.from_checkpoint(path, env=...)."
            )
        with only_modules(allow):
            trainer = cls(scenario=compose({**described, **changes}, str(folder)), fresh=False)
            trainer.restore(folder)
        return trainer

    def close(self) -> None:
        if self.files is not None:
            self.files.close()


def load_policy(policy: Policy, name: PolicyID, source: str) -> None:
    """Start a policy from a checkpoint of another run: ``PATH`` (same id, or its only policy) or ``PATH#id``."""
    weights, where = _loadable(name, source)
    set_weights(policy, weights, where)


def check_loaded(policies: Mapping[PolicyID, Policy], sources: Mapping[PolicyID, str]) -> None:
    """Layers that loaded policies share can only come from one of them: refuse where the others had different ones."""
    for name, source in sources.items():
        if not policies[name].shared:
            continue
        weights, _ = _loadable(name, source)
        if any(not np.array_equal(array, weights[key]) for key, array in policies[name].get_weights().items()):
            raise CheckpointError(
                f"load: policy {name!r} shares the layers {', '.join(policies[name].shared)} with a policy that was loaded "
                "after it and had different ones there. Load one of them, or give them layers of their own."
            )


def _loadable(name: PolicyID, source: str) -> tuple[Mapping[str, Any], str]:
    """The weights that ``source`` means, and a text that says where they are."""
    path, _, wanted = source.partition("#")
    folder = find_checkpoint(Path(path).expanduser())
    policies = read_part(folder, "policies")
    wanted = wanted or (name if name in policies or len(policies) > 1 else next(iter(policies)))
    if wanted not in policies:
        raise CheckpointError(
            f"load: {folder} has no policy {wanted!r}. It has {', '.join(policies)}.{did_you_mean(wanted, policies)} "
            f"Name one: load: {{{name}: {path}#ID}}."
        )
    return policies[wanted], f"load: {folder}, policy {wanted!r}"


def set_weights(policy: Policy, weights: Mapping[str, Any], where: str) -> None:
    """Copy weights into a policy; names and shapes have to fit."""
    policy.fit(weights)
    check_weights(policy, weights, where)
    policy.set_weights(dict(weights))


def check_weights(policy: Policy, weights: Mapping[str, Any], where: str) -> None:
    """Refuse weights of other names or shapes than the policy's own."""
    mine = {key: tuple(tensor.shape) for key, tensor in policy.state_dict().items()}
    theirs = {key: tuple(array.shape) for key, array in weights.items()}
    if mine != theirs:
        wrong = next(k for k in [*mine, *theirs] if mine.get(k) != theirs.get(k))
        raise CheckpointError(
            f"{where} does not fit: {wrong} has shape {theirs.get(wrong, 'none')}, expected "
            f"{mine.get(wrong, 'none')}. The model keys (fcnet_hiddens, dueling, ...) and the spaces must be the "
            "same."
        )
