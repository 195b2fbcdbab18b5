"""Makes docs/scale.md and its pictures from benchmarks/scale.json: all numbers, the model, what it foretells.

python benchmarks/scale_page.py [--json benchmarks/scale.json]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

from scale_model import DRIVER, FLOAT, SETTINGS, Cost, Model, Row, Setting, model_of, rows_of

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
AXES = {"envs": "env copies", "agents": "agents", "policies": "policies", "obs": "numbers per observation"}
CORES = (8, 64, 512)
LARGE = 4_800  # rows of a minibatch where there are many
NAMES = {
    "collect": "collecting", "load": "rows and advantages", "update": "updates", "concat": "side by side (part of gathering)",
    "gather": "gathering (driver)", "daemon": "gathering (Ray's daemon)", "broadcast": "sending weights (driver)",
}  # fmt: skip
UNITS = ((1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"), (1e-12, "ps"))


def time_text(seconds: float) -> str:
    if seconds == 0:
        return "0"
    for size, unit in UNITS:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e12:.2g} ps"


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def number(value: float) -> str:
    """Three digits are all that a measurement carries."""
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{share:.2%}"


# -- parts of the page -----------------------------------------------------------------------------------------------


def along(found: Mapping[str, Any], axis: str) -> list[Row]:
    return [row for row in found["points"] if row["axis"] == axis]


def curve_table(found: Mapping[str, Any], seconds: Callable[[Row], float], model: Callable[[Row], float]) -> str:
    """First, middle and last point of each axis."""
    rows = []
    for axis, words in AXES.items():
        points = along(found, axis)
        for row in (points[0], points[len(points) // 2], points[-1]):
            count = rows_of(row)
            sizes = f"{row['envs']:,} x {row['agents']:,}, {row['policies']:,}, {row['obs']:,}"
            rows.append(
                [words, f"{row[axis]:,}", sizes, time_text(seconds(row) / count), time_text(model(row) / count)]
            )
    return table(["what grows", "to", "copies x agents, policies, numbers", "measured per row", "model"], rows)


def worker_table(found: Mapping[str, Any]) -> str:
    rows = []
    for row in found["workers"]:
        times = [time_text(row[name]) for name in ("gather", "broadcast", "daemon")]
        rows.append([f"{row['workers']}", f"{row['obs']:,}", f"{row['bytes'] / 1e6:.2f} MB", *times])
    return table(["workers", "numbers per observation", "sent per round", "gathering", "sending", "Ray's daemon"], rows)


def price_table(model: Model) -> str:
    rows = []
    for name, words in NAMES.items():
        cost: Cost = getattr(model, name)
        prices = ", ".join(f"{time_text(price)} per {term}" for term, price in cost.prices.items())
        rows.append([words, prices, f"{cost.typical_error:.0%}", f"{cost.large_error:.0%}"])
    return table(["part", "prices", "typical error", "error of one in ten"], rows)


def share_of(cost: Cost, row: Row, *terms: str) -> float:
    return sum(cost.parts(row)[term] for term in terms) / cost(row)


def meaning(found: Mapping[str, Any], model: Model) -> str:
    """What is constant and what is linear, in words with the numbers of the fit."""
    envs, policies, obs = along(found, "envs"), along(found, "policies"), along(found, "obs")
    constant = ("round", "tick", "policy and tick")
    few, many = (share_of(model.collect, row, *constant) for row in (envs[0], envs[-1]))
    calls = share_of(model.collect, policies[-1], "policy and tick")
    small = share_of(model.update, along(found, "envs")[0], "round", "policy", "step", "minibatch")
    seen = model.collect.prices["observed byte"] * FLOAT * obs[-1]["obs"]
    row_price = model.collect.prices["agent step"] + seen
    return (
        "collecting is linear in the decisions of a tick, above what a tick and a call of a policy cost anyway. Of a tick "
        f"with {envs[0]['envs']} copy that constant part is {few:.0%}, with {envs[-1]['envs']:,} copies {many:.0%}: copies "
        f"are nearly free until they are many. With {policies[-1]['policies']} separate policies their calls are "
        f"{calls:.0%} of a tick. "
        f"A decision itself costs {time_text(model.collect.prices['agent step'])}, and with {obs[-1]['obs']:,} numbers to see "
        f"{time_text(row_price)}. Learning is linear in rows times epochs; in the smallest round {small:.0%} of an update is "
        "the same whatever the minibatch holds, so larger minibatches are cheaper per row."
    )


def foretold_table(model: Model) -> str:
    rows = []
    for setting in SETTINGS:
        alone = model.speed(setting, 0)
        rows.append([setting.name, "0", number(alone), "", number(alone), ""])
        for workers in CORES:
            ideal = workers * setting.envs * setting.ticks / model.round(setting, 0)["collect"]
            cells = [setting.name, f"{workers}"]
            for overlap in (False, True):
                speed = model.speed(setting, workers, overlap)
                cells += [number(speed), percent(speed / ideal)]
            rows.append(cells)
    return table(["run", "workers", "in turn", "share", "overlapped", "share"], rows)


def limit_table(model: Model) -> str:
    rows = []
    for setting in SETTINGS:
        cells = [setting.name]
        for parts in (DRIVER, ("gather", "load", "broadcast"), ("gather", "broadcast")):
            limit = model.limit(setting, parts)
            cells.append("never" if math.isinf(limit) else f"{limit:,.0f}")
        rows.append(cells)
    heading = ["run", "all of it", "without the updates", "without updates and advantages"]
    return table(heading, rows)


def driver_table(model: Model) -> str:
    rows = []
    for setting in SETTINGS:
        parts = model.round(setting, 64)
        rows.append([setting.name, *(number(1e3 * parts[name]) for name in ("collect", *DRIVER, "concat"))])
    heading = [
        "run",
        "collecting (each worker)",
        "gathering",
        "advantages",
        "updates",
        "sending",
        "of gathering: side by side",
    ]
    return table(heading, rows)


def advice(model: Model) -> str:
    """What it would bring to move work away from the driver, for the run in which workers have most to do."""
    setting = max(SETTINGS, key=lambda s: model.limit(s))
    lines = [
        f"What moving work away from the driver would bring to *{setting.name}* with 64 workers, in env steps per second:",
        "",
    ]
    large = replace(setting, minibatch=LARGE)
    cases: dict[str, tuple[Setting, bool, tuple[str, ...]]] = {
        "as it is, in turn": (setting, False, ()),
        "advantages made by the workers": (setting, False, ("load",)),
        "overlapped": (setting, True, ()),
        "overlapped, advantages made by the workers": (setting, True, ("load",)),
        f"overlapped, minibatches of {LARGE:,} rows": (large, True, ()),
        "overlapped, advantages and updates elsewhere (other learners, without what they cost)": (
            setting,
            True,
            ("load", "update"),
        ),
    }
    rows = []
    for words, (run, overlap, spared) in cases.items():
        rows.append([words, number(model.speed(run, 64, overlap, spared))])
    lines.append(table(["work", "env steps per second"], rows))
    parts = model.round(setting, 64)
    first = max(DRIVER, key=lambda name: parts[name])
    share = parts[first] / sum(parts[name] for name in DRIVER)
    lines += [
        "",
        f"The largest part of the driver's work there is *{NAMES[first]}* ({share:.0%}). Putting the rollouts side ",
    ]
    joined = parts["concat"] / parts["gather"]
    lines[-1] += f"by side is {joined:.0%} of gathering: the rest is Ray's, per call and per byte."
    return "\n".join(lines)


def assumed() -> str:
    told = [f"{time_text(setting.env_step_s)} per env step for {setting.name}" for setting in SETTINGS]
    return ", ".join(told)


def page(found: Mapping[str, Any], model: Model) -> str:
    """The whole text of docs/scale.md."""
    warning = ""
    if found["quick"] or found["machine"]["load"] > 1:
        warning = " **The machine was busy or the run was a quick one: trust shapes and ratios, not digits.**"
    return Template((HERE / "scale_page.md").read_text(encoding="utf-8")).substitute(
        **found["machine"],
        minutes=max(1, round(found["took_s"] / 60)),
        minibatch=along(found, "envs")[0]["minibatch"],
        nodes=found["nodes"],
        cpus=found["cpus"],
        warning=warning,
        collecting=curve_table(found, lambda row: row["collect"], model.collect),
        learning=curve_table(found, lambda row: row["learn"], model.learn),
        workers=worker_table(found),
        prices=price_table(model),
        meaning=meaning(found, model),
        foretold=foretold_table(model),
        limits=limit_table(model),
        driver=driver_table(model),
        advice=advice(model),
        assumed=assumed(),
    )


# -- pictures --------------------------------------------------------------------------------------------------------


def draw_curves(
    found: Mapping[str, Any], seconds: Callable[[Row], float], model: Callable[[Row], float], file: Path
) -> None:
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 4, figsize=(11, 2.9), layout="constrained")
    for panel, (axis, words) in zip(panels, AXES.items(), strict=True):
        points = along(found, axis)
        at = [row[axis] for row in points]
        panel.loglog(at, [model(row) / rows_of(row) * 1e6 for row in points], color="#2f5f9e")
        panel.loglog(at, [seconds(row) / rows_of(row) * 1e6 for row in points], "o", color="#a5762a")
        panel.set_xlabel(words)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("µs per row")
    _save(figure, file)


def draw_workers(model: Model, file: Path) -> None:
    import matplotlib.pyplot as plt

    workers = [2**i for i in range(10)]
    figure, panels = plt.subplots(1, len(SETTINGS), figsize=(11, 3.2), layout="constrained")
    for panel, setting in zip(panels, SETTINGS, strict=True):
        panel.loglog(
            workers, [_ideal(model, setting, n) for n in workers], "--", color="#9a9a9a", label="collecting alone"
        )
        panel.loglog(workers, [model.speed(setting, n, True) for n in workers], color="#3f7d3a", label="overlapped")
        panel.loglog(workers, [model.speed(setting, n) for n in workers], color="#2f5f9e", label="in turn")
        panel.set_title(setting.name, fontsize=9)
        panel.set_xlabel("workers")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("env steps per second")
    panels[0].legend(fontsize=8)
    _save(figure, file)


def _ideal(model: Model, setting: Setting, workers: int) -> float:
    return workers * setting.envs * setting.ticks / model.round(setting, 0)["collect"]


def _save(figure: Any, file: Path) -> None:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    # The same numbers give the same file.
    with mpl.rc_context({"svg.hashsalt": "marl", "svg.fonttype": "none"}):
        figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=HERE / "scale.json", help="default: benchmarks/scale.json")
    given = parser.parse_args()
    found = json.loads(given.json.read_text(encoding="utf-8"))
    model = model_of(found)
    (DOCS / "scale.md").write_text(page(found, model), encoding="utf-8")
    draw_curves(found, lambda row: row["collect"], model.collect, DOCS / "pictures" / "scale_collecting.svg")
    draw_curves(found, lambda row: row["learn"], model.learn, DOCS / "pictures" / "scale_learning.svg")
    draw_workers(model, DOCS / "pictures" / "scale_workers.svg")


if __name__ == "__main__":
    main()
