"""A results folder in which every name looks like markup: runs, experiments, envs, agents, policies, actions, messages."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from marl.data.task import AgentID
from marl.gametheory.payoffs import PayoffTensor
from marl.runs.files import table_row
from tests.play.runs import Digits
from tests.watch.many_runs import params, result

# Would set ``hacked`` or leave a ``.planted`` behind where it became markup, code or an address.
MARKUP = "<img src=x onerror=hacked=1>"
PLANTED = "<b class=planted>"
QUOTED = "\"'><script>hacked=3<&lt;"
ADDRESS = "javascript:hacked=2"
BACKWARDS = "\u202egnorw"
LONG = "long_" * 60
AGENTS = (f"{MARKUP}agent", f"{QUOTED}other")
ACTIONS = (f"{MARKUP}go", ADDRESS, f"{PLANTED}\u202estop")
POLICIES = (f"{PLANTED}policy", f"{ADDRESS} second")
EXPERIMENT = f"{MARKUP}experiment"
ENV = "tests.watch.strange_results:Strange"


class Strange(Digits):
    """Agents, actions and its picture have names that a page must not take for markup."""

    possible_agents = AGENTS

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        return ACTIONS

    def scene(self, viewer: AgentID | None = None) -> dict[str, Any]:
        cells = [[f"{MARKUP}piece", None], [None, f"{PLANTED}piece"]]
        places = {"0,1": 0, "1,0": 1}
        return {"kind": "board", "rows": 2, "columns": 2, "cells": cells, "actions": places, "text": f"{MARKUP}scene"}


def scenario() -> dict[str, Any]:
    return {
        "name": EXPERIMENT,
        "env": ENV,
        "algo": {"name": "ppo", "train_batch_size": 64, "sgd_minibatch_size": 64},
        "model": {"fcnet_hiddens": [4]},
        "multiagent": {
            "policies": {POLICIES[0]: {}, POLICIES[1]: {}},
            "policy_mapping_fn": dict(zip(AGENTS, POLICIES, strict=True)),
        },
        "num_workers": 0,
        "evaluation": {"interval": 1, "episodes": 2},
        "checkpoint_freq": 1,
        "stop": {"training_iteration": 2},
    }


def make_strange_results(root: Path) -> Path:
    """One real run, whose folder is returned, and files by hand."""
    from tests.command import marl

    file = root.parent / "strange.yaml"
    file.write_text(yaml.safe_dump(scenario(), allow_unicode=True))
    done = marl("run", file, "--local-dir", root)
    assert done.code == 0, done.err
    _by_hand(root / f"{QUOTED}folder".replace("/", "") / f"{MARKUP}{BACKWARDS}run")
    _by_hand(root / LONG[:200] / f"{ADDRESS} run")
    _games(root)
    # The command writes names that every file system takes; a folder may be called anything afterwards.
    (written,) = (path.parent for path in root.glob("*_experiment/*/params.json"))
    return written.parent.rename(root / EXPERIMENT) / written.name


def _by_hand(place: Path) -> None:
    """A run that failed with a message, whose fields and keys have names as well."""
    keys: dict[str, Any] = params(name=MARKUP)
    keys |= {"env": f"{MARKUP}env", "algo": {"name": f"{PLANTED}algo"}, "goal": {MARKUP: 1.0}, "seed": 0}
    keys["multiagent"] = {"policies": {LONG: {}, MARKUP: {}}}
    place.mkdir(parents=True)
    (place / "params.json").write_text(json.dumps(keys))
    lines, rows = [], []
    for iteration in range(1, 6):
        line = result(iteration, 0)
        line |= {MARKUP: float(iteration), QUOTED: 1.0, "note": MARKUP, "hostname": PLANTED}
        line["policy_reward_mean"] = {MARKUP: 1.0, LONG: 2.0, ADDRESS: 3.0}
        line["notes"] = [MARKUP, BACKWARDS]
        line["warnings"] = [f"{PLANTED}warning"]
        lines.append(json.dumps(line) + "\n")
        rows.append(table_row(line))
    (place / "result.json").write_text("".join(lines))
    with open(place / "progress.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    (place / "state.json").write_text(json.dumps({"state": "failed", "error": f"{MARKUP}{BACKWARDS} went wrong"}))
    (place / "error.txt").write_text(f"{MARKUP}\n{QUOTED}\n")
    (place / "notes.txt").write_text(f"{MARKUP}note\n")
    (place / "checkpoints").mkdir()


def _games(root: Path) -> None:
    """A cross-play and a report with names as strange."""
    names = ((MARKUP, QUOTED, LONG), (ADDRESS, PLANTED, BACKWARDS))
    mean = np.arange(18, dtype=float).reshape(2, 3, 3)
    table = payoffs(names, mean)
    for name, content in {
        f"{MARKUP}cross": {"payoffs.json": table},
        f"{PLANTED}report": {"report.json": {"env": MARKUP, "title": MARKUP, "payoffs": table}, "payoffs.json": table},
    }.items():
        folder = root / name
        folder.mkdir()
        for file, written in content.items():
            (folder / file).write_text(json.dumps(written))


def payoffs(names: tuple[tuple[str, ...], ...], mean: np.ndarray) -> Mapping[str, Any]:
    counts = np.full(mean.shape[1:], 10)
    table = PayoffTensor(mean, np.full(mean.shape, 0.1), counts, names, (f"{MARKUP}row", f"{QUOTED}column"))
    found: Mapping[str, Any] = table.as_json()
    return found
