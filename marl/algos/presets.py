"""The short names of all algorithms: each preset is a few defaults over its family's keys."""

from __future__ import annotations

from marl.algos.central_critic.presets import PRESETS as CENTRAL_CRITIC
from marl.algos.deep_cfr.presets import PRESETS as DEEP_CFR
from marl.algos.es.presets import PRESETS as ES
from marl.algos.family import ALGOS, Preset
from marl.algos.maddpg.presets import PRESETS as MADDPG
from marl.algos.marwil.presets import PRESETS as MARWIL
from marl.algos.nfsp.presets import PRESETS as NFSP
from marl.algos.qmix.presets import PRESETS as QMIX
from marl.algos.rnad.presets import PRESETS as RNAD
from marl.algos.sac.presets import PRESETS as SAC
from marl.algos.tabular.presets import PRESETS as TABULAR

__all__ = ["ALGOS", "Preset"]

for _preset in (*QMIX, *CENTRAL_CRITIC, *ES, *MARWIL, *SAC, *MADDPG, *NFSP, *RNAD, *DEEP_CFR, *TABULAR):
    ALGOS.register(_preset.name, _preset)
