"""A trial takes over what another one has learned: a checkpoint made of two."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marl.runs.checkpoint import has_part, read_part, write_checkpoint
from marl.runs.resume import find_resumable

LEARNED = ("policies", "learners", "replay", "population")
"""Parts that are copied: weights, optimisers and all other state of learners, what they learn from, members of populations."""
OWN = ("workers", "source")
"""Parts that stay: generators and episodes in flight. So a copy sees other episodes than the one that it was made of."""
MEASURED = ("recent", "last_metrics", "last_evaluation", "curriculum")
"""Of the part ``run``, what was measured of the weights and goes with them; counters and ids are the trial's own."""


def take_over(directory: Path, source: Path, scenario: Mapping[str, Any]) -> Path:
    """Give the newest checkpoint in a run directory the state of the newest one in ``source``, and these keys.

    The checkpoint is replaced in one step. To do it twice is the same as once, so after a kill it is simply done again.
    """
    own, theirs = find_resumable(directory), find_resumable(source)
    run, measured = read_part(own, "run"), read_part(theirs, "run")
    run["scenario"] = dict(scenario)
    for name in MEASURED:
        if name in measured:
            run[name] = measured[name]
    parts: dict[str, Any] = {"run": run}
    for folder, names in ((theirs, LEARNED), (own, OWN)):
        for name in names:
            if has_part(folder, name):
                parts[name] = read_part(folder, name)
    return write_checkpoint(own, parts)
