"""What `marl show` prints of nfsp."""

from __future__ import annotations

from marl.algos.marwil.losses import imitation_loss
from marl.algos.nfsp.config import NfspConfig
from marl.algos.nfsp.learner import NfspLearner, _responses
from marl.algos.nfsp.reservoir import Reservoir
from marl.algos.qmix.learner import QmixLearner
from marl.algos.reading import Function, Reading

LEFT_OUT: dict[Function, str] = {Reservoir._make_room: "memory that grows"}


def reading(learner: type[NfspLearner], config: NfspConfig) -> Reading:
    """The average policy's own part around that of the best response, which is dqn."""
    best = QmixLearner.reading(config.best_response())
    shown: list[Function] = [
        learner.learn, _responses, Reservoir.add, learner._train, Reservoir.sample, learner._loss, imitation_loss, *best.shown,
    ]  # fmt: skip
    return Reading(tuple(shown), {**LEFT_OUT, **best.left_out})
