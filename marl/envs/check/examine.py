"""The way in: builds the env, lets the fitting exam run, and gives the report."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cloudpickle  # type: ignore[import-untyped]  # comes with gymnasium; Ray sends with its own copy

from marl.envs.adapters.plain import PlainEnv
from marl.envs.base import MultiAgentEnv
from marl.envs.batched import BatchedEnv
from marl.envs.check.array_exam import ArrayExam
from marl.envs.check.dict_exam import DictExam
from marl.envs.check.findings import Findings, Problem
from marl.envs.check.report import Report
from marl.envs.registry import ENVS, EnvCreator, make_batched_env
from marl.envs.vector.vector_env import DictVector
from marl.envs.wrappers import read_wrappers
from marl.errors import EnvError, SpaceMismatchError

EPISODES, STEPS = 10, 1_000
DIALECTS = {
    "GymnasiumEnv": "Gymnasium",
    "GymnasiumTeamEnv": "Gymnasium, several agents",
    "PettingZooParallelEnv": "PettingZoo, parallel",
    "PettingZooTurnBasedEnv": "PettingZoo, turn-based",
}


def check_env(
    env: str | EnvCreator | MultiAgentEnv,
    env_config: Mapping[str, Any] | None = None,
    steps: int = STEPS,
    *,
    episodes: int = EPISODES,
    seed: int = 0,
    wrappers: Sequence[object] = (),
) -> list[Problem]:
    """Play the env at random and look for breaches of its contract; an empty list is a clean bill, errors come first."""
    return examine(env, env_config, steps, episodes=episodes, seed=seed, wrappers=wrappers).problems


def examine(
    env: str | EnvCreator | MultiAgentEnv,
    env_config: Mapping[str, Any] | None = None,
    steps: int = STEPS,
    *,
    episodes: int = EPISODES,
    seed: int = 0,
    wrappers: Sequence[object] = (),
) -> Report:
    """``check_env``, with all that was seen on the way.

    At most ``steps`` env steps and ``episodes`` episodes are played; parts of the first episode are played several times.
    """
    findings = Findings()
    creator, alone = _creator(env)
    wrapping = read_wrappers(wrappers)

    def make(env_ids: int) -> BatchedEnv:
        return make_batched_env(creator, env_ids, env_config or {}, wrappers=wrapping)

    report = Report(env if isinstance(env, str) else getattr(env, "__name__", type(env).__name__))
    try:
        batched_env = make(1)
        if isinstance(batched_env, DictVector):
            exam: DictExam | ArrayExam = _examine_dicts(batched_env, make, report, findings, seed, alone)
        else:
            exam = _examine_arrays(batched_env, make, report, findings, seed)
        exam.run(episodes, steps)
        report.chance = exam.chance
    except (EnvError, SpaceMismatchError) as error:
        findings.add("unusable", str(error))
    _look_at_sending(env, findings)
    report.problems, report.notes = findings.problems, findings.notes
    return report


def _creator(env: str | EnvCreator | MultiAgentEnv) -> tuple[str | EnvCreator, bool]:
    """How to make copies, and whether there is only the one object that was given."""
    if isinstance(env, str):
        return env, False
    if callable(env) and not isinstance(env, MultiAgentEnv):
        return env, False
    try:
        copy.deepcopy(env)
    except Exception:  # whatever the user's objects say when they cannot be copied
        return lambda: env, True
    return lambda: copy.deepcopy(env), False


def _examine_dicts(
    batched_env: DictVector,
    make: Callable[[int], BatchedEnv],
    report: Report,
    findings: Findings,
    seed: int,
    alone: bool,
) -> DictExam:
    def make_one() -> MultiAgentEnv:
        made = make(1)
        assert isinstance(made, DictVector)
        return made.envs[0]

    exam = DictExam(batched_env.envs[0], make_one, batched_env.name, findings, seed, alone)
    report.api = _dialect(batched_env.envs[0])
    report.kinds = batched_env.kinds
    report.state_size = batched_env.state_size
    report.max_agents = dict(batched_env.envs[0].max_agents)
    report.episodes = exam.episodes
    report.clock = exam.clock
    return exam


def _dialect(env: MultiAgentEnv) -> str:
    """How the env itself speaks; a translation around it is ours."""
    spoken = env.env if isinstance(env, PlainEnv) else env
    return DIALECTS.get(type(spoken).__name__, "dicts")


def _examine_arrays(
    batched_env: BatchedEnv, make: Callable[[int], BatchedEnv], report: Report, findings: Findings, seed: int
) -> ArrayExam:
    exam = ArrayExam(batched_env, make, findings, seed)
    report.api = "arrays"
    report.kinds = batched_env.kinds
    report.state_size = batched_env.state_size
    report.episodes = exam.episodes
    report.clock = exam.clock
    return exam


def _look_at_sending(env: str | EnvCreator | MultiAgentEnv, findings: Findings) -> None:
    """Ray workers get the creator as bytes, unless they find it by its name."""
    creator: object = env
    if env in ENVS:
        creator = ENVS[str(env)]
    if not callable(creator):
        return  # a name that workers look up, or an object that is copied
    try:
        cloudpickle.dumps(creator)
    except Exception as error:  # pickling raises whatever the objects inside raise
        text = f"the creator of the env cannot be sent to Ray workers ({type(error).__name__}: {error})."
        findings.add("not-sendable", text)
