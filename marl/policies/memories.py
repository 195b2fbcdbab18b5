"""Memories by the key of ``model:`` that asks for them, and what is known of them before they are built."""

from __future__ import annotations

from marl.data.task import AgentType
from marl.policies.attention import Attention
from marl.policies.config import ModelConfig
from marl.policies.memory import Gru, Last, Lstm, Memory

MEMORIES: dict[str, type[Memory]] = {"use_lstm": Lstm, "use_gru": Gru, "use_attention": Attention}


def memory_of(model: ModelConfig) -> type[Memory] | None:
    """The memory that the keys ask for; they refuse each other, so it is one at most."""
    for key, memory in MEMORIES.items():
        if getattr(model, key):
            return memory
    return None


def remembers_by(model: ModelConfig) -> str:
    """The key that makes the model remember, for messages."""
    for key in MEMORIES:
        if getattr(model, key):
            return key
    return "custom_model"


def memory_keys(model: ModelConfig) -> tuple[str, ...]:
    """What makes the memory large, the largest numbers first."""
    memory = memory_of(model)
    keys = () if memory is None else memory.SIZED_BY
    return tuple(sorted(keys, key=lambda key: -getattr(model, key)))


def last_seen(model: ModelConfig, kind: AgentType) -> Last:
    """How wide the last action and reward are that the memory is shown."""
    action = kind.columns.options + len(kind.columns.numbers)
    return Last(action * model.shows_last_action, int(model.shows_last_reward))


def carry_count(model: ModelConfig, kind: AgentType) -> int:
    """Numbers that a policy with this model remembers per agent; of a custom model they are not known."""
    memory = memory_of(model)
    if memory is None:
        return 0
    last = last_seen(model, kind)
    return memory.remembered(model, last) + sum(last)
