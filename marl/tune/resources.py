"""What a trial asks Ray for: a bundle for the process that learns, and one for each of its helpers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, TypeAlias

from marl.errors import ConfigError, ResourceError
from marl.scenario.config import Scenario
from marl.tune.config import RESOURCES

Bundle: TypeAlias = dict[str, float]
Wanted: TypeAlias = Mapping[str, float | Callable[..., Any]] | list[Bundle] | Callable[..., Any] | None


class Keys(dict[str, Any]):
    """A trial's keys, as ``spec.config["num_workers"]`` and as ``spec.config.num_workers``."""

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError:
            raise AttributeError(f"the trial has no key {key!r}") from None


def helpers(scenario: Scenario | None, keys: Mapping[str, Any]) -> list[Bundle]:
    """One bundle per Ray worker and per further learner; of a training function ``num_workers`` in its config is known."""
    if scenario is None:
        workers = keys.get("num_workers", 0)
        if not isinstance(workers, int):  # the key may mean anything there
            workers = 0
        return [{"CPU": 1.0}] * workers
    bundles: list[Bundle] = []
    if scenario.on_ray:
        worker = {
            "CPU": scenario.num_cpus_per_worker,
            "GPU": scenario.num_gpus_per_worker,
            **scenario.custom_resources_per_worker,
        }
        bundles += [worker] * scenario.num_workers
    # The first learner is the trial's own process.
    bundles += [{"CPU": 1.0}] * (scenario.num_learners - 1)
    return bundles


def request(wanted: Wanted, scenario: Scenario | None, keys: Mapping[str, Any]) -> list[Bundle]:
    """The bundles of one trial; the first one is for the process that learns."""
    if isinstance(wanted, list):
        return _as_given(wanted, helpers(scenario, keys))
    given = _evaluated(wanted, keys)
    gpus = 0.0
    if scenario is not None:
        gpus = scenario.num_gpus
    head: Bundle = {"CPU": given.get("cpu", 1.0), "GPU": given.get("gpu", gpus)}
    others = helpers(scenario, keys)
    if "extra_cpu" in given or "extra_gpu" in given:
        extra = {"CPU": given.get("extra_cpu", 0.0), "GPU": given.get("extra_gpu", 0.0)}
        others = _shared_out(extra, others)
    bundles = [_positive(head)]
    for bundle in map(_positive, others):
        if bundle:  # Ray refuses a bundle of nothing; the first one has to be there all the same
            bundles.append(bundle)
    return bundles


def _as_given(wanted: list[Bundle], others: list[Bundle]) -> list[Bundle]:
    """Bundles that the user listed; refused where a worker would wait for ever because none is left for it."""
    first, *rest = [_positive(bundle) for bundle in wanted]
    rest = [bundle for bundle in rest if bundle]  # Ray refuses a bundle of nothing, such as {"GPU": 0}
    if len(rest) < len(others):
        needed = [{"CPU": 1.0}, *map(_positive, others)]
        raise ResourceError(
            f"resources_per_trial has {len(rest)} bundle(s) beside the first, but the trial has {len(others)} workers and "
            f"further learners. Give resources_per_trial={needed}, or drop it: that is the default."
        )
    return [first, *rest]


def total(bundles: Iterable[Bundle]) -> Bundle:
    """All bundles together."""
    summed: Bundle = {}
    for bundle in bundles:
        for name, amount in bundle.items():
            summed[name] = summed.get(name, 0.0) + amount
    return summed


def check_fits(bundles: Iterable[Bundle], there: Mapping[str, float], who: str) -> None:
    """Refuse a trial that could never start instead of waiting for ever."""
    for name, amount in total(bundles).items():
        # Sums of fractions of GPUs are rounded.
        if amount > there.get(name, 0.0) + 1e-9:
            raise ResourceError(
                f"{who} asks for {amount:g} {name}, but Ray has {there.get(name, 0.0):g}. Use fewer num_workers, other "
                "resources_per_trial, or --num-cpus."
            )


def _evaluated(wanted: Wanted, keys: Mapping[str, Any]) -> dict[str, float]:
    spec = SimpleNamespace(config=Keys(keys))
    entries: Any = wanted or {}
    if callable(wanted):
        entries = wanted(spec)
    if not isinstance(entries, Mapping):
        raise ConfigError(f"resources_per_trial gave {entries!r}; expected a dict such as {{'cpu': 1, 'gpu': 0.2}}.")
    found: dict[str, float] = {}
    for name, entry in entries.items():
        amount: Any = entry
        if callable(entry):
            amount = entry(spec)
        if name not in RESOURCES or not _is_amount(amount):
            raise ConfigError(
                f"resources_per_trial: {name} is {amount!r}; expected one of {', '.join(RESOURCES)} with a number of at "
                "least 0."
            )
        found[name] = float(amount)
    return found


def _is_amount(amount: Any) -> bool:
    if isinstance(amount, bool):
        return False
    return isinstance(amount, int | float) and amount >= 0


def _shared_out(extra: Bundle, others: list[Bundle]) -> list[Bundle]:
    """The extra resources in equal shares, one for each helper; refused where a helper needs more than its share."""
    if not others:
        return [extra]
    share = {name: amount / len(others) for name, amount in extra.items()}
    bundles = []
    for bundle in others:
        for name, amount in bundle.items():
            # Shares are divisions: what fits exactly must not be refused by rounding.
            if amount > share.get(name, math.inf) + 1e-9:
                raise ResourceError(
                    f"resources_per_trial: {len(others)} workers need {amount:g} {name} each, but extra_{name.lower()} is "
                    f"{extra[name]:g}. Give at least {amount * len(others):g}."
                )
        bundles.append({**bundle, **share})
    return bundles


def _positive(bundle: Bundle) -> Bundle:
    return {name: float(amount) for name, amount in bundle.items() if amount > 0}
