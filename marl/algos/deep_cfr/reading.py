"""What `marl show` prints of deep_cfr and escher."""

from __future__ import annotations

from marl.algos.deep_cfr.config import DeepCfrConfig
from marl.algos.deep_cfr.estimates import GivenRegrets, HistoryValues
from marl.algos.deep_cfr.learner import DeepCfrLearner
from marl.algos.deep_cfr.losses import average_loss, regret_loss, value_loss
from marl.algos.deep_cfr.memory import Merged, _keys
from marl.algos.deep_cfr.networks import RegretNetwork, RegretPart, all_legal
from marl.algos.nfsp.reservoir import Reservoir
from marl.algos.optimiser import STEPS, FlatOptimiser, _begin
from marl.algos.reading import Function, Reading

LEFT_OUT: dict[Function, str] = {
    Reservoir._make_room: "memory that grows",
    Merged._make_room: "memory that grows",
    _keys: "what was shown, as bytes",
    RegretNetwork._fresh: "how the network is built",
    FlatOptimiser.load_state_dict: "momentum of a network that begins anew",
    _begin: "momentum of a network that begins anew",
    all_legal: "masks where everything is legal",
    DeepCfrLearner._observe_rows: "filters of observations",
}
ESTIMATED: dict[str, tuple[Function, ...]] = {
    "traversals": (GivenRegrets.regrets,),
    "values": (HistoryValues.regrets, HistoryValues._step, value_loss, HistoryValues._inputs),
}
"""How regrets become known, by the key ``regrets_from``."""

KEPT: dict[str, tuple[Function, ...]] = {"rows": (Reservoir.add,), "views": (Merged.add, Merged._places)}
DRAWN: dict[str, Function] = {"rows": Reservoir.sample, "views": Merged.sample}
"""What memories do, by the key ``memory_of``."""


def reading(learner: type[DeepCfrLearner], config: DeepCfrConfig) -> Reading:
    """One iteration after the games were played: regrets, then the average policy."""
    shown: list[Function] = [
        learner.learn, learner._train, *ESTIMATED[config.regrets_from], learner._remembered,
        *KEPT[config.memory_of], RegretPart.begin_anew, RegretNetwork.begin_anew, learner._update_regrets,
        DRAWN[config.memory_of], regret_loss,
        learner._update_average, average_loss, FlatOptimiser.step, STEPS[config.optimizer.type],
    ]  # fmt: skip
    return Reading(tuple(shown), LEFT_OUT)
