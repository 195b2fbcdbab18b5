"""How large a policy's networks will be, known before they are built."""

from __future__ import annotations

from itertools import pairwise

from gymnasium import spaces

from marl.data.task import AgentType
from marl.errors import ResourceError
from marl.memory import free_memory, in_words
from marl.policies.config import PolicySpec

FLOAT = 4  # bytes


def parameter_count(spec: PolicySpec, kind: AgentType) -> int:
    """Weights of the layers ``fcnet_hiddens``, ``post_fcnet_hiddens`` and the memory, of one network.

    A layer from ``n`` to ``m`` numbers has ``(n + 1) * m``, a memory of ``c`` cells behind ``n`` numbers
    ``gates * c * (n + c + 2)``, with 4 gates of an LSTM and 3 of a GRU. Vision nets and custom models are not counted.
    """
    if spec.scripted is not None or spec.model.custom_model is not None:
        return 0
    model = spec.model
    widths = [_inputs(kind) + (kind.size if spec.agent_id else 0), *model.fcnet_hiddens, *model.post_fcnet_hiddens]
    cells = model.lstm_cell_size if model.recurrent else 0
    memory = (4 if model.use_lstm else 3) * cells * (widths[-1] + cells + 2)
    outputs = kind.columns.options + 2 * len(kind.columns.numbers)
    last = (cells or widths[-1]) + 1
    return sum((n + 1) * m for n, m in pairwise(widths)) + memory + last * outputs


def _inputs(kind: AgentType) -> int:
    """Numbers that a network sees: choices as one-hot vectors; images are made small by a vision net first."""
    space = kind.observation_space
    if isinstance(space, spaces.Box) and len(space.shape) == 3:
        return 0
    return int(spaces.flatdim(space))


def check_size(spec: PolicySpec, kind: AgentType) -> None:
    """Refuse networks that do not fit into memory, before torch is asked for them."""
    needed, free = FLOAT * parameter_count(spec, kind), free_memory()
    if needed > free:
        raise ResourceError(
            f"the network of a policy for {kind.agents[0]!r} would take {in_words(needed)} of memory, and {in_words(free)} "
            f"are free: its layers are {[*spec.model.fcnet_hiddens, *spec.model.post_fcnet_hiddens]}"
            f"{f', its memory has {spec.model.lstm_cell_size} cells' if spec.model.recurrent else ''}, for observations "
            f"{kind.observation_space}. Lower fcnet_hiddens, or show the policy less."
        )
