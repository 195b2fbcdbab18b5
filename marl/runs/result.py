"""The result of an iteration: one flat-named dict, the same in Python, in ``result.json`` and on the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from marl.data.episode import EpisodeStats
from marl.data.task import Floats, PolicyID
from marl.errors import ConfigError, did_you_mean
from marl.page import notebook
from marl.runs.custom_metrics import custom_histograms, custom_numbers
from marl.runs.fields import meaning_of

Result: TypeAlias = dict[str, Any]
FIRST_SHOWN = (
    "training_iteration", "timesteps_total", "episodes_total", "episode_reward_mean", "episode_len_mean", "best_evaluation",
    "time_total_s", "done",
)  # fmt: skip

LONGEST_HISTOGRAM = 1_000  # newest episodes in hist_stats

WALL_CLOCK_FIELDS = frozenset(
    {
        "date",
        "timestamp",
        "time_this_iter_s",
        "time_total_s",
        "timers",
        "sampler_perf",
        "perf",
        "git",
        "versions",
        "pid",
        "hostname",
        "node_ip",
        "trial_id",
        "experiment_id",
    }
)
"""Fields that differ between two otherwise equal runs."""


class ShownResult(dict[str, Any]):
    """A result, which a notebook shows as a small table with everything else folded."""

    def _repr_html_(self) -> str:
        return notebook.block("result", self.shown())

    def shown(self) -> notebook.Html:
        first = [(name, self[name]) for name in FIRST_SHOWN if self.get(name) is not None]
        rest = {name: value for name, value in self.items() if name not in FIRST_SHOWN}
        return notebook.Html(notebook.table(("", ""), first) + notebook.tree("all other fields", rest))


def episode_numbers(stats: EpisodeStats, policies: Sequence[PolicyID]) -> Result:
    """Rewards and lengths of some episodes; null where there was none.

    A policy's reward in an episode is the sum over all agents that it played; ``agent_reward_mean`` is per agent.
    """
    newest = stats.last(LONGEST_HISTOGRAM)
    largest, smallest, mean = {}, {}, {}
    histograms = {"episode_reward": newest.rewards.tolist(), "episode_lengths": newest.lengths.tolist()}
    for index, name in enumerate(policies):
        returns = stats.policy_returns(index)
        largest[name], smallest[name], mean[name] = _largest(returns), _smallest(returns), _mean(returns)
        histograms[f"policy_{name}_reward"] = newest.policy_returns(index).tolist()
    return {
        "episode_reward_max": _largest(stats.rewards),
        "episode_reward_min": _smallest(stats.rewards),
        "episode_reward_mean": _mean(stats.rewards),
        "episode_len_mean": _mean(stats.lengths),
        "policy_reward_max": largest,
        "policy_reward_min": smallest,
        "policy_reward_mean": mean,
        "agent_reward_mean": stats.agent_means(),
        "custom_metrics": custom_numbers(stats),
        "hist_stats": {**histograms, **custom_histograms(stats, LONGEST_HISTOGRAM)},
    }


EPISODE_FIELDS = ("episode_reward_max", "episode_reward_min", "episode_reward_mean", "episode_len_mean")
POLICY_FIELDS = ("policy_reward_max", "policy_reward_min", "policy_reward_mean")
COUNT_FIELDS = (
    "episodes_this_iter", "episodes_total", "training_iteration", "timesteps_this_iter", "timesteps_total",
    "agent_timesteps_this_iter", "agent_timesteps_total", "time_this_iter_s", "time_total_s", "num_healthy_workers",
    "best_evaluation",
)  # fmt: skip
OPEN_BLOCKS = ("agent_reward_mean", "custom_metrics")  # names are the env's or the user's
TRAINING_BLOCKS = (  # not of evaluations
    "info", "timers", "sampler_perf", "perf", "population", "exploitability", "curriculum",
)  # fmt: skip

GAME_FIELDS = (
    "exploitability.nash_conv", "exploitability.exploitability", "population.round", "population.empirical_nash_conv",
    "population.gain_of_round",
)  # fmt: skip
STANDARD_ERRORS = {
    "exploitability.nash_conv": "exploitability.stderr",
    "exploitability.exploitability": "exploitability.exploitability_stderr",
}
"""Measured fields, and where their standard error stands."""
ERRORS_TO_BE_SURE = 2.0
SMALLER_IS_BETTER = frozenset({"exploitability.nash_conv", "exploitability.exploitability", "population.gain_of_round"})


def check_field(field: str, policies: Sequence[PolicyID], where: str) -> None:
    """Refuse the name of a result field that no result will ever have."""
    inner = field.removeprefix("evaluation.")
    of_policies = [f"{name}.{policy}" for name in POLICY_FIELDS for policy in policies]
    known = [*EPISODE_FIELDS, *of_policies]
    blocks = [*OPEN_BLOCKS]
    prefix = "evaluation."
    if inner == field:
        known += [*COUNT_FIELDS, *GAME_FIELDS]
        blocks += TRAINING_BLOCKS
        prefix = ""
    if inner in known:
        return
    if inner.partition(".")[0] in blocks:
        meaning = meaning_of(inner)
        if meaning is not None and meaning.is_number:
            return
    names = [prefix + name for name in known]
    raise ConfigError(
        f"{where}: no result has a field {field!r}.{did_you_mean(field, names)} Fields: {', '.join(names)}."
    )


def look_up(result: Mapping[str, Any], field: str) -> float | None:
    """A number of a result by its dotted name, such as ``evaluation.episode_reward_mean``; None where there is none.

    Policy ids may contain dots, so the longest matching key is taken at each step.
    """
    if field in result:
        return _number(result[field])
    # From the longest block to the shortest.
    block = field.rpartition(".")[0]
    while block:
        inside = result.get(block)
        if isinstance(inside, Mapping):
            return look_up(inside, field[len(block) + 1 :])
        block = block.rpartition(".")[0]
    return None


def _number(value: object) -> float | None:
    if not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:  # JSON knows whole numbers of any length
        return None


def reached(result: Mapping[str, Any], wanted: Mapping[str, float]) -> bool:
    """Whether every field has at least the wanted value; at most that, where smaller is better.

    A figure with a standard error has to be there by two of them, so that luck alone does not end a run.
    """
    for field, value in wanted.items():
        found = look_up(result, field)
        if found is None:
            return False
        sign = 1.0
        if field in SMALLER_IS_BETTER:
            sign = -1.0
        sure = sign * found - ERRORS_TO_BE_SURE * _standard_error(result, field)
        # Sums of rewards are rounded: what is wanted to the digit must not fail by the last bit.
        if not sure >= sign * value - 1e-9:
            return False
    return True


def _standard_error(result: Mapping[str, Any], field: str) -> float:
    """0 for fields that are not measured with an error."""
    if field not in STANDARD_ERRORS:
        return 0.0
    return look_up(result, STANDARD_ERRORS[field]) or 0.0


def unsure_of(result: Mapping[str, Any], wanted: Mapping[str, float]) -> list[str]:
    """Sentences on fields whose figure has an error, which decides whether they count as reached."""
    said = []
    for field, value in wanted.items():
        found = look_up(result, field)
        error = _standard_error(result, field)
        if found is None or not error:
            continue
        reach = found + ERRORS_TO_BE_SURE * error
        said.append(
            f"{field} is {found:.4g} +- {error:.2g}: it counts by {found:.4g} + 2 x {error:.2g} = {reach:.4g}, wanted at "
            f"most {value:g}"
        )
    return said


def without_wall_clock(result: Mapping[str, Any]) -> Result:
    """The part of a result that repeats itself in an equal run."""
    return {key: value for key, value in result.items() if key not in WALL_CLOCK_FIELDS}


def pretty_print(result: Mapping[str, Any]) -> str:
    """A result as indented text; lists are shortened."""
    return "\n".join(_lines(result, 0))


def _lines(value: Mapping[str, Any], depth: int) -> list[str]:
    lines = []
    indent = "  " * depth
    for key, item in value.items():
        if isinstance(item, Mapping):
            lines.append(f"{indent}{key}:")
            lines += _lines(item, depth + 1)
        elif isinstance(item, list) and len(item) > 5:
            first = ", ".join(map(str, item[:3]))
            lines.append(f"{indent}{key}: [{first}, ... {len(item)} values]")
        else:
            lines.append(f"{indent}{key}: {item}")
    return lines


def _mean(values: Floats | np.ndarray[Any, Any]) -> float | None:
    if not len(values):
        return None
    # Returns are float32; their sum over many episodes needs more digits.
    return float(np.mean(values, dtype=np.float64))


def _largest(values: Floats) -> float | None:
    if not len(values):
        return None
    return float(values.max())


def _smallest(values: Floats) -> float | None:
    if not len(values):
        return None
    return float(values.min())
