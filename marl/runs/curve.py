"""The picture of a run: rewards over env steps, drawn without matplotlib's global state."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from marl.errors import printable
from marl.runs.atomic import write_atomically
from marl.runs.result import look_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Without red, the colour of the evaluation.
POLICY_COLOURS = [f"tab:{name}" for name in ("blue", "orange", "green", "purple", "brown", "pink", "olive", "cyan")]

Points: TypeAlias = list[tuple[float, float]]


def drawn(text: str) -> str:
    """Text that is drawn as it is: dollars would begin a formula."""
    return printable(text).replace("$", r"\$")


def draw_rewards(results: Sequence[Mapping[str, Any]], title: str, path: Path) -> Path:
    """A PNG of the mean episode reward in training and evaluation, and of every policy if there are several.

    Missing values are passed over; a single point shows as a dot; a run without any finished
    episode gives an empty picture that says so.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)  # draws into memory: needs no screen
    axes = figure.add_subplot()
    _draw_lines(axes, results)
    axes.set_title("\n".join(textwrap.wrap(drawn(title), 80)), fontsize=11)
    axes.set_xlabel("env steps")
    axes.set_ylabel("mean reward per episode")
    axes.xaxis.set_major_formatter(lambda steps, _: f"{steps:,.10g}")
    axes.grid(alpha=0.3)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    write_atomically(path, picture.getvalue())
    return path


def _draw_lines(axes: Axes, results: Sequence[Mapping[str, Any]]) -> None:
    training = _points(results, "episode_reward_mean")
    evaluation = _points(results, "evaluation.episode_reward_mean")
    lines = 0
    lines += _draw(axes, training, "training, all agents", color="black", linewidth=2.0)
    lines += _draw(axes, evaluation, "evaluation, all agents", color="tab:red", linewidth=1.5, marker="o", markersize=4)
    axes.set_prop_cycle(color=POLICY_COLOURS)
    policies: dict[str, None] = {}  # in the order in which they appear: colours stay when a policy joins
    for result in results:
        policies.update(dict.fromkeys(result.get("policy_reward_mean") or {}))
    if len(policies) > 1:  # a single one earns what all earn
        for policy in policies:
            points = _points(results, f"policy_reward_mean.{policy}")
            lines += _draw(axes, points, f"training, {policy}", linewidth=1.2, alpha=0.9)
    if lines:
        axes.legend(loc="best", fontsize=9, ncols=1 + lines // 10)
    else:
        axes.text(0.5, 0.5, "no finished episode yet", ha="center", va="center", transform=axes.transAxes)


def _draw(axes: Axes, points: Points, label: str, **style: Any) -> int:
    """Draw the line unless it is empty; returns the number of lines drawn."""
    if not points:
        return 0
    if len(points) == 1:
        style.setdefault("marker", "o")
    steps, rewards = zip(*points, strict=True)
    axes.plot(steps, rewards, label=drawn(label), **style)
    return 1


def _points(results: Sequence[Mapping[str, Any]], field: str) -> Points:
    points = []
    for result in results:
        step, value = result.get("timesteps_total"), look_up(result, field)
        if step is not None and value is not None:
            points.append((float(step), value))
    return points
