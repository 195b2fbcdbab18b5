"""What can be known of a comparison before anything is trained for it."""

from __future__ import annotations

from collections.abc import Sequence

from marl.data.task import PolicyID
from marl.errors import ConfigError
from marl.needs import missing
from marl.runs.fields import meaning_of
from marl.runs.result import check_field
from marl.scenario.config import Scenario
from marl.scenario.resolve import resolve
from marl.scenario.unused_keys import FIELD_NEEDS
from marl.training.build import check_fields


def check_scenario(name: str, scenario: Scenario, metric: str) -> None:
    """Refuse a scenario that cannot be trained, or whose results will never have the field."""
    policies = list(resolve(scenario).policies)
    check_fields(scenario, policies)
    check_metric(name, scenario, policies, metric)


def check_metric(name: str, scenario: Scenario, policies: Sequence[PolicyID], metric: str) -> None:
    """Whether results of the scenario can have the field; what callbacks add to results nobody knows before."""
    block = metric.partition(".")[0]
    wanting = missing(FIELD_NEEDS[block], scenario) if block in FIELD_NEEDS else ""
    if wanting:
        raise ConfigError(f"--metric {metric}: {name} will never have it, because it {wanting}.")
    known = meaning_of(metric)
    exactly = known is not None and known.is_number and known.name == metric
    if not exactly and scenario.callbacks is None:
        check_field(metric, policies, f"--metric, {name}")
