"""Many seeds of one scenario in one process: ordinary trainers, whose updates are computed together.

Every seed has its trainer, its run directory and its loop (``loop.run_until_stopped``), in a greenlet of its own. Where
learners hand in their gradient steps (``marl.algos.together``), the seeds wait for each other, and the steps of all are one
batched computation. What a seed computes does not depend on the others, so each ends, fails and is resumed by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial

from marl.errors import ConfigError
from marl.scenario.config import Scenario
from marl.scenario.resolve import resolve
from marl.training.build import check_stacks
from marl.training.display import Display
from marl.training.lockstep import Lockstep
from marl.training.loop import Outcome, interruptible, run_until_stopped
from marl.training.memory_estimate import check_memory
from marl.training.trainer import Trainer


def check_stack(scenarios: Sequence[Scenario]) -> None:
    """Refuse, before anything is built, what cannot be trained in one process at once. One scenario stands for all."""
    first = scenarios[0]
    if not first.stacked:
        raise ConfigError("runs are trained together in stacked arithmetic alone. Set stacked: true.")
    setup = resolve(first)
    check_stacks(setup)
    check_memory(setup, len(scenarios))


def run_stack(trainers: Sequence[Trainer], displays: Sequence[Display]) -> list[Outcome | Exception]:
    """Train all until each has met its stop condition, or Ctrl-C; how each ended, or with which error.

    Their run directories must be open. The first Ctrl-C ends every run behind its iteration with a checkpoint, a second one
    ends all at once (``KeyboardInterrupt``).
    """
    with interruptible(lambda: _stop_soon(trainers, displays[0])) as stopped:
        bodies = []
        for trainer, display in zip(trainers, displays, strict=True):
            bodies.append(partial(run_until_stopped, trainer, display, nullcontext(stopped)))
        return Lockstep(bodies).run()


def _stop_soon(trainers: Sequence[Trainer], display: Display) -> None:
    """The first Ctrl-C; while one seed is evaluated, so that others come next, none of these evaluations is waited for."""
    running = [trainer.evaluation for trainer in trainers if trainer.evaluation.running]
    if running:
        display.note("stopping; evaluations are broken off, and made when the seeds go on")
    display.note("stopping all seeds after this iteration; press Ctrl-C again to stop at once")
    for trainer in trainers:
        trainer.evaluation.unwanted = bool(running)
    for evaluation in running:  # one at most: nobody waits for others in the middle of one
        evaluation.break_off()
