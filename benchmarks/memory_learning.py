"""How well policies learn with each memory: a symbol is shown and has to be named 5 or 40 steps later.

Attention, an LSTM, a GRU and no memory at all, three seeds each, with the keys of scenarios/repeat_after_5.yaml and
repeat_after_40.yaml; memories have 32 cells or an attention_dim of 32. One JSON line per run goes into FILE; a run that stands
there is not made again, so the comparison may be stopped and gone on with. ``--svg`` draws the curves of FILE.

    python benchmarks/memory_learning.py FILE.jsonl [--only lstm gru] [--delays 5] [--seeds 700 701 702] [--svg OUT.svg]
                                         [--quick]

No seed is one of proofs/.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import marl
from marl.scenario.load import load_scenario

SCENARIOS = Path(__file__).parents[1] / "scenarios"
CELLS = {"model.use_attention": False, "model.attention_dim": 64, "model.lstm_cell_size": 32}
MEMORIES: dict[str, dict[str, Any]] = {
    "attention": {},
    "lstm": {**CELLS, "model.use_lstm": True},
    "gru": {**CELLS, "model.use_gru": True},
    "none": {"model.use_attention": False, "model.attention_dim": 64, "model.max_seq_len": 20},
}
DELAYS = (5, 40)
SEEDS = (700, 701, 702)
# Colours of Okabe and Ito, which the colour-blind tell apart, and dashes for prints without colours.
STYLES = {"attention": ("#0072b2", "-"), "lstm": ("#d55e00", "--"), "gru": ("#009e73", "-."), "none": ("#555555", ":")}


def learn(memory: str, delay: int, seed: int, quick: bool) -> dict[str, Any]:
    """One run; greedy returns ``[env steps, reward]`` over its course."""
    keys = {**MEMORIES[memory], "seed": seed, "goal": {}, "log_sys_usage": False, "checkpoint_freq": 0}
    keys["evaluation"] = {"interval": 5, "episodes": 60}
    if quick:
        keys["stop"] = {"training_iteration": 5}
    scenario = load_scenario(SCENARIOS / f"repeat_after_{delay}.yaml", changes=keys)
    curve: list[tuple[int, float]] = []
    began = time.process_time()
    with marl.Trainer(scenario=scenario) as trainer:
        done = False
        while not done:
            result = trainer.train()
            if "evaluation" in result:
                curve.append((result["timesteps_total"], result["evaluation"]["episode_reward_mean"]))
            done = result["done"]
    return {"curve": curve, "cpu_s": round(time.process_time() - began, 1)}


def read(file: Path, quick: bool) -> list[dict[str, Any]]:
    """Whole lines of FILE; smoke runs and real ones do not stand for each other. A comparison that was killed may have left
    half a line, which is left out: its run is made again."""
    if not file.is_file():
        return []
    rows = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if row.get("quick", False) == quick:
            rows.append(row)
    return rows


def _half_a_line(file: Path) -> bool:
    """Whether what is written next would stand behind half a line."""
    written = file.read_bytes()
    return bool(written) and not written.endswith(b"\n")


def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["delay"], row["memory"], row["seed"]


def grouped(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[int, str], list[Mapping[str, Any]]]:
    found: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for delay in DELAYS:
        for memory in MEMORIES:
            runs = [row for row in rows if key(row)[:2] == (delay, memory)]
            if runs:
                found[delay, memory] = runs
    return found


def solved_at(run: Mapping[str, Any]) -> str:
    """The first evaluation from which on all answers were right, in env steps."""
    first = ""
    for steps, reward in reversed(run["curve"]):
        if reward < 1.0:
            break
        first = f"{steps:,}"
    return first or "-"


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    shown = Table("delay", "memory", "mean over the run", "at the end", "all right from step", "CPU s per run")
    for (delay, memory), runs in grouped(rows).items():
        means = [statistics.fmean(reward for _, reward in run["curve"]) for run in runs]
        shown.add_row(
            str(delay),
            memory,
            " ".join(f"{mean:.2f}" for mean in means),
            " ".join(f"{run['curve'][-1][1]:.2f}" for run in runs),
            " ".join(solved_at(run) for run in runs),
            f"{statistics.fmean(run['cpu_s'] for run in runs):.0f}",
        )
    return shown


def draw(rows: Sequence[Mapping[str, Any]], out: Path) -> None:
    """A panel per delay: the mean over seeds, and thin lines for single ones."""
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "marl", "svg.fonttype": "none", "font.size": 9})
    figure, panels = plt.subplots(1, len(DELAYS), figsize=(7.2, 2.7), sharey=True)
    for panel, delay in zip(panels, DELAYS, strict=True):
        for (of_delay, memory), runs in grouped(rows).items():
            if of_delay != delay:
                continue
            colour, line = STYLES[memory]
            steps = [step for step, _ in runs[0]["curve"]]
            curves = [[reward for _, reward in run["curve"]] for run in runs]
            for curve in curves:
                panel.plot(steps, curve, color=colour, linewidth=0.5, alpha=0.45)
            mean = [statistics.fmean(values) for values in zip(*curves, strict=True)]
            panel.plot(steps, mean, line, color=colour, label="no memory" if memory == "none" else memory)
        panel.axhline(1 / 3, color="#999999", linewidth=0.6)
        panel.set(title=f"named {delay} steps later", xlabel="env steps", ylim=(0, 1.05))
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("right answers")
    panels[0].legend(frameon=False, loc="center right")
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="one JSON line per run; runs that stand there are not made again")
    parser.add_argument("--only", nargs="+", choices=list(MEMORIES), default=list(MEMORIES))
    parser.add_argument("--delays", nargs="+", type=int, choices=DELAYS, default=list(DELAYS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--svg", type=Path, help="draw the curves of all runs of FILE")
    parser.add_argument("--quick", action="store_true", help="a smoke run whose numbers mean nothing")
    given = parser.parse_args()
    torch.set_num_threads(1)
    done = {key(row) for row in read(given.file, given.quick)}
    for seed in given.seeds:  # seeds outermost: a comparison that is stopped has all memories
        for delay in given.delays:
            for memory in given.only:
                row: dict[str, Any] = {"delay": delay, "memory": memory, "seed": seed}
                row |= {"quick": True} if given.quick else {}
                if key(row) in done:
                    continue
                row |= learn(memory, delay, seed, given.quick)
                with given.file.open("a", encoding="utf-8") as file:
                    file.write("\n" * _half_a_line(given.file) + json.dumps(row) + "\n")
    rows = read(given.file, given.quick)
    Console().print(table(rows))
    if given.svg is not None:
        draw(rows, given.svg)


if __name__ == "__main__":
    main()
