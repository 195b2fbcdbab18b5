"""``schedule.yaml``: the values by time that a population found, as a file that can be run by itself.

The weights of the best trial came about with these values, first those of the trials that it copied, then its own. The file
trains new runs that change their values at the same times: ``marl tune DIR/schedule.yaml --num-samples 5``.
"""

from __future__ import annotations

from typing import Any

import yaml

from marl.runs.atomic import write_atomically
from marl.scenario.describe import can_be_replayed, to_plain
from marl.tune.generations import schedule_of
from marl.tune.journal import Journal
from marl.tune.mutations import Values

FILE = "schedule.yaml"


def schedule_for(journal: Journal, index: int) -> list[dict[str, Any]]:
    """``tune.schedule`` for what a trial became: time and values from then on; empty where trials do not change."""
    population = journal.plan.population
    if population is None:
        return []
    first: dict[int, Values] = {}
    for trial in journal.plan.trials:
        first[trial.index] = population.values_in(trial.config)
    entries = []
    for at, values in schedule_of(journal.history, index, first):
        given = {key: value for key, value in values.items() if value is not None}
        if given:
            entries.append({"at": at, "values": given})
    return entries


def write_schedule(journal: Journal, index: int) -> None:
    """Leave the file of a trial, the best one, in the folder of the search."""
    population = journal.plan.population
    entries = schedule_for(journal, index)
    config = to_plain(journal.plan.trials[index].config)
    # Python objects that no name finds again cannot stand in a file.
    if population is None or not population.copying or not can_be_replayed(config):
        return
    config.pop("stacked", None)
    options: dict[str, Any] = {
        "scheduler": "schedule",
        "time_attr": population.decider.clock,
        "metric": journal.plan.objective.metric,
        "mode": journal.plan.objective.mode,
        "schedule": entries,
    }
    if journal.plan.options.stacked:
        options["stacked"] = True
    text = yaml.safe_dump({**config, "tune": options}, sort_keys=False, allow_unicode=True)
    write_atomically(journal.directory / FILE, text)
