"""One score per run and env, normalised so that scores of several envs can be taken together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from marl.analysis.compare.compare import Line, held
from marl.analysis.compare.statistics import Scores
from marl.analysis.plot.groups import Grouped
from marl.analysis.plot.points import A_LITTLE, check_exams, label_of, lines_of, metric_of, shared_range
from marl.errors import ConfigError, did_you_mean
from marl.runs.result import SMALLER_IS_BETTER


class Scale(NamedTuple):
    """The value that counts as score 0, and the one that counts as 1; ``given`` by the user, or the worst and best run."""

    zero: float
    one: float
    given: bool


@dataclass(frozen=True)
class Finals:
    """What runs reached, by line and env, and the field that was measured in each env."""

    values: Mapping[str, Mapping[str, Scores]]
    metrics: Mapping[str, str]
    notes: Sequence[str]

    @property
    def envs(self) -> list[str]:
        return list(self.metrics)

    def signed(self) -> dict[str, list[Scores]]:
        """As measured, but larger is always better: by line, an array per env."""
        found = {}
        for name, by_env in self.values.items():
            found[name] = [_sign(self.metrics[env]) * by_env[env] for env in self.envs]
        return found

    def normalised(self, scales: Mapping[str, Scale]) -> dict[str, list[Scores]]:
        """By line, an array per env, with 0 and 1 where the scales say."""
        found = {}
        for name, by_env in self.values.items():
            found[name] = [_scaled(by_env[env], scales[env]) for env in self.envs]
        return found


def _sign(metric: str) -> float:
    return -1.0 if metric in SMALLER_IS_BETTER else 1.0


def _scaled(values: Scores, scale: Scale) -> Scores:
    return (values - scale.zero) / (scale.one - scale.zero)


def check_complete(grouped: Grouped) -> None:
    """Refuse lines that lack an env: a mean over other envs cannot be compared."""
    for env, panel in grouped.groups.items():
        for name in grouped.lines:
            if name not in panel:
                raise ConfigError(
                    f"{name} has no runs of {env}, but others have. Scores over several envs need runs of every line in every "
                    "env: train the missing ones, or leave out that env or that line."
                )


def finals_of(grouped: Grouped, metric: str | None, x: str, smooth: int, at: float | None, extend: bool) -> Finals:
    """The value of every run ``at`` a place; else at the last one that all runs of its env have reached."""
    values: dict[str, dict[str, Scores]] = {name: {} for name in grouped.lines}
    metrics: dict[str, str] = {}
    notes: list[str] = []
    for env, panel in grouped.groups.items():
        metrics[env] = metric or metric_of(grouped.runs_of(env))
        check_exams(panel, metrics[env])
        measured: dict[str, list[Line]] = {}
        for name, members in panel.items():
            measured[name], said = lines_of(name, members, metrics[env], x, smooth)
            notes += said
        place, said = _place(env, list(chain.from_iterable(measured.values())), x, at, extend)
        notes += said
        for name, lines in measured.items():
            values[name][env] = np.concatenate([held(line, place) for line in lines])
    return Finals(values, metrics, notes)


def _place(env: str, lines: Sequence[Line], x: str, at: float | None, extend: bool) -> tuple[Scores, list[str]]:
    """Where runs of an env are compared: at the end of the one that ended first."""
    first, last = shared_range(lines, extend)
    what = label_of(x)
    if at is None:
        at = last
    if not first <= at <= last:
        raise ConfigError(
            f"{env}: all runs have a value from {first:,.6g} to {last:,.6g} {what} only; asked for {at:,.6g}. Choose a place "
            "by --at, or give runs of the same length."
        )
    _, furthest = shared_range(lines, extend=True)
    notes = []
    if furthest > A_LITTLE * at:
        notes.append(f"{env}: scores are those at {at:,.6g} {what}; other runs go on to {furthest:,.6g}")
    return np.array([at]), notes


def read_scales(texts: Sequence[str], envs: Sequence[str]) -> dict[str, Scale]:
    """``ENV=ZERO,ONE`` for some of the envs."""
    found: dict[str, Scale] = {}
    for text in texts:
        # From the right: titles of envs may hold an equals sign themselves.
        env, _, numbers = text.rpartition("=")
        try:
            zero, one = map(float, numbers.split(","))
        except ValueError:
            raise ConfigError(
                f"--normalise {text!r}: expected ENV=ZERO,ONE, the values that count as score 0 and as score 1, such as "
                f"{envs[0]}=0,500."
            ) from None
        if env not in envs:
            raise ConfigError(
                f"--normalise {text!r}: no env {env!r} here.{did_you_mean(env, envs)} Envs: {', '.join(envs)}."
            )
        # Scores are divided by the distance between the two.
        if zero == one or not np.isfinite([zero, one]).all():
            raise ConfigError(f"--normalise {text!r}: needs two different finite numbers.")
        found[env] = Scale(zero, one, given=True)
    return found


def scales_of(finals: Finals, texts: Sequence[str]) -> dict[str, Scale]:
    """The scale of every env: what was given; else by the worst and the best run of the env, of all lines."""
    given = read_scales(texts, finals.envs)
    return {env: given.get(env) or _worst_and_best(env, finals) for env in finals.envs}


def _worst_and_best(env: str, finals: Finals) -> Scale:
    values = np.concatenate([by_env[env] for by_env in finals.values.values()])
    least, most = float(values.min()), float(values.max())
    if least == most:
        # Nothing to scale by; and nothing to divide by.
        raise ConfigError(
            f"{env}: all runs ended with {least:g}, so there is no worst and best run to normalise by. Say what counts as 0 "
            f"and as 1: --normalise '{env}=ZERO,ONE'."
        )
    if finals.metrics[env] in SMALLER_IS_BETTER:
        return Scale(most, least, given=False)
    return Scale(least, most, given=False)
