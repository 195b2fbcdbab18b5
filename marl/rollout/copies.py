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
    many: dict[str, Any] = {}
    for name in ("policy_of", "alive", "lots", "t", "eps_id"):
        many[name] = repeated(state[name], copies)
    # What each copy was paid until now counts in its whole return.
    ledger: dict[str, Any] = {}
    for name in ("returns", "seen", "lengths"):
        ledger[name] = repeated(state["ledger"][name], copies)
    for name in ("past", "names"):
        ledger[name] = list(state["ledger"][name]) * copies
    drawn = {}
    for name, numbers in state["drawn"].items():
        drawn[name] = repeated(numbers, copies)
    return {
        **many,
        "world": world,
        "ledger": ledger,
        "told": list(state["told"]) * copies,
        "carry": [repeated(column, copies) for column in state["carry"]],
        "drawn": drawn,
        "episodes": list(state["episodes"]) * copies,
        "episodes_begun": state["episodes_begun"],
    }
