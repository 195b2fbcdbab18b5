"""A run without files and without processes, for a debugger (``marl debug``)."""

from __future__ import annotations

from marl.runs.progress import progress_of
from marl.scenario.config import Scenario
from marl.training.display import PlainDisplay
from marl.training.trainer import Trainer


def run_here(scenario: Scenario) -> None:
    """Train until a stop condition is met, and show it; errors come out as they are."""
    display = PlainDisplay()
    with Trainer(scenario=scenario) as trainer:
        display.start(trainer.setup.header)
        while not trainer.finished:
            result = trainer.train()
            display.update(result, progress_of(scenario.stop, result))
            # Shown at once: the next step may be the one at which the debugger stops.
            while trainer.notes:
                display.note(trainer.notes.pop(0))
            if result["done"]:
                break
    display.finish(["ended without an error"])
