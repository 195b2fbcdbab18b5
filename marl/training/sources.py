"""Where a run's experience comes from: its workers, unless an algorithm brings a source of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from marl.algos.learner import Learner
from marl.data.task import PolicyID
from marl.errors import UserError
from marl.offline.json_traces import text_files
from marl.offline.recording import RecordedPlay, Recorder, who_tells
from marl.offline.source import RecordedEpisodes, check_learners
from marl.policies.policy import Policy
from marl.rollout.pool import WorkerPool
from marl.rollout.rollout_buffer import Collected
from marl.rollout.same_round import SameRound
from marl.scenario.env import env_name
from marl.scenario.external import is_external
from marl.scenario.resolve import Setup
from marl.training.es_source import EvolutionSource, evolves, evolving
from marl.training.extensions.callbacks import refuse_idle
from marl.training.walks.source import WalkSource, learns_by_regrets, walking


@runtime_checkable
class Remembering(Protocol):
    """A source with a place from which it goes on after a restart."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class Source(Protocol):
    """Gives one round of experience at a time."""

    def collect(self, steps: int) -> Collected:
        """What happened in ``steps`` more steps of every copy."""
        ...


def choose_source(
    setup: Setup, workers: WorkerPool, learners: Sequence[Learner], policies: Mapping[PolicyID, Policy]
) -> Source:
    """The workers, written down where asked, or their first round alone; recorded episodes; populations where learners are
    evolution strategies; walks where they minimise regrets."""
    try:
        return _chosen(setup, workers, learners, policies)
    except UserError:
        workers.stop()  # nobody else knows of them yet
        raise


def _chosen(
    setup: Setup, workers: WorkerPool, learners: Sequence[Learner], policies: Mapping[PolicyID, Policy]
) -> Source:
    scenario, evolution, regrets = setup.scenario, evolves(setup), learns_by_regrets(setup, policies)
    unplayed = ""
    if evolution:
        unplayed = "es learns from returns alone, without batches"
    if regrets:
        unplayed = "regrets are learned from walks through the game, without batches"
    refuse_idle(workers.local_worker().hooks, unplayed, scenario.input)  # known only now that workers have made them
    if evolution:
        return EvolutionSource(workers, evolving(learners), scenario.seed)
    if regrets:
        return WalkSource(workers, walking(learners), setup)
    if scenario.input is not None:
        check_learners(setup, learners)
        return RecordedEpisodes(setup, scenario.input)
    if scenario.fake_sampler:
        return SameRound(workers)
    if scenario.output is not None:
        return RecordedPlay(workers, _recorder(setup, Path(scenario.output).expanduser(), policies))
    return workers


def _recorder(setup: Setup, directory: Path, policies: Mapping[PolicyID, Policy]) -> Recorder:
    scenario = setup.scenario
    told: list[int] = []
    # Clients of an external env may play by themselves, and need not say how likely that was.
    if not is_external(scenario):
        told = who_tells({name: policies[name] for name in setup.policies}, scenario.explore)
    files = None
    if scenario.output_format == "json":
        files = text_files(directory, setup)
    return Recorder(
        directory=directory,
        task=setup.task,
        env=env_name(scenario.env),
        policies=list(setup.policies),
        normalized=scenario.normalize_actions,
        files=files,
        told=told,
    )


def source_state(source: Source, workers: WorkerPool) -> dict[str, Any]:
    """What a source has to remember over a restart; the workers' own state is a part of its own."""
    if source is workers or not isinstance(source, Remembering):
        return {}
    return {"source": type(source).__name__, "state": source.state_dict()}


def load_source_state(source: Source, saved: Mapping[str, Any]) -> None:
    """Go on where the state was taken; a run that now has another source begins it anew."""
    if isinstance(source, Remembering) and type(source).__name__ == saved["source"]:
        source.load_state_dict(saved["state"])


def close_source(source: Source) -> None:
    """Bring to the disk what it still holds."""
    if isinstance(source, RecordedPlay):
        source.close()
