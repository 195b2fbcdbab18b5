"""The state of an env runner of one copy for a runner of many: so that one situation can be played on many times."""

from __future__ import annotations

from typing import Any

from marl.envs.batched import BatchedEnv, State
from marl.envs.branching import repeated, tiled


def tiled_state(env: BatchedEnv, state: State, copies: int) -> State | None:
    """A state of ``EnvRunner.state_dict`` for ``copies`` copies; None where the env's own state cannot be copied so."""
    world = tiled(env, state["world"], copies)
    if world is None:
        return None
    many = {name: repeated(state[name], copies) for name in ("policy_of", "alive", "lots", "t", "eps_id")}
    ledger: dict[str, Any] = {name: repeated(state["ledger"][name], copies) for name in ("returns", "seen", "lengths")}
    ledger |= {name: list(state["ledger"][name]) * copies for name in ("past", "names")}
    return {
        **many,
        "world": world,
        "ledger": ledger,
        "told": list(state["told"]) * copies,
        "carry": [repeated(column, copies) for column in state["carry"]],
        "drawn": {name: repeated(drawn, copies) for name, drawn in state["drawn"].items()},
        "episodes": list(state["episodes"]) * copies,
        "episodes_begun": state["episodes_begun"],
    }
