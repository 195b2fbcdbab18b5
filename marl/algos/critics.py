"""Critics of actions: networks of one shape that look at the same rows, such as the twins of td3 and sac.

``forward`` is ordinary autograd. Learners of this package update by the two verbs of ``policies/mlp.py``:

    values, tapes = critics.run(x)
    critics.pull(tapes, slopes)                                         # the critics learn
    critics.pull(tapes, slopes, inputs=True, parameters=False)          # an actor climbs them: d loss / d x
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from marl.policies.mlp import MLP, Tape


class ActionCritics(nn.Module):
    """A derived class names its networks (the names are on disk) and hands them over in ``each``."""

    each: tuple[MLP, ...]  # outside of nn.Module's slow attribute look-up

    def run(self, x: Tensor) -> tuple[Tensor, Sequence[Tape]]:
        """``[critics, N, outputs]``, and what ``pull`` needs."""
        # One after the other: one batched product of both is no faster at 256 units, and a tenth at 64.
        outputs, tapes = [], []
        for network in self.each:
            values, tape = network.run(x)
            outputs.append(values)
            tapes.append(tape)
        return torch.stack(outputs), tapes

    def pull(
        self, tapes: Sequence[Tape], slopes: Tensor, *, inputs: bool = False, parameters: bool = True
    ) -> Tensor | None:
        """Add d loss / d parameter to the gradients, by ``slopes`` shaped like the values; ``inputs``: return d loss / d x,
        to which all critics add, as all look at the same ``x``."""
        found: Tensor | None = None
        for network, tape, slope in zip(self.each, tapes, slopes, strict=True):
            by_x = network.pull(tape, slope, inputs=inputs, parameters=parameters)
            found = by_x if found is None or by_x is None else found.add_(by_x)
        return found
