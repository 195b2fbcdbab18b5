"""Keys of neural fictitious self-play."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, PositiveFloat, PositiveInt

from marl.algos.config import ReplayConfig
from marl.algos.qmix.config import QmixConfig
from marl.policies.nfsp import ANTICIPATORY


class NfspConfig(ReplayConfig):
    """nfsp: best responses by action values, and the average of them by imitation."""

    anticipatory: Annotated[float, Field(gt=0, le=1)] = Field(
        ANTICIPATORY,
        description="Share of the episodes that an agent's best response plays; the average policy plays the rest.",
    )
    reservoir_size: PositiveInt = Field(
        2_000_000,
        description="Decisions of best responses that are kept for imitation, an even sample of all that were ever made.",
    )
    average_lr: PositiveFloat = Field(1e-3, description="Step size of the average policy's optimiser.")
    lr: PositiveFloat = Field(1e-3, description="Step size of the best response's optimiser.")
    train_batch_size: PositiveInt = Field(
        128,
        description="Rows per update: of the replay for the best response, of the reservoir for the average policy.",
    )
    buffer_size: PositiveInt = Field(
        20_000, description="Rows that the replay of a policy holds. A short one answers to what the others do now."
    )
    updates_per_step: PositiveFloat = Field(
        0.05, description="Updates of both networks per env step; fractions are carried over."
    )
    target_update_every: PositiveInt = Field(300, description="Updates between two copies into the target network.")
    double_q: bool = Field(
        True, description="Choose the next action with the online network, value it with the target."
    )
    dueling: bool = Field(False, description="Network gives a state value and centred advantages.")
    huber_delta: PositiveFloat | None = Field(
        None, description="Errors beyond this count linearly instead of squared (Huber's loss); null: all squared."
    )

    def best_response(self) -> QmixConfig:
        """The same keys as dqn knows them."""
        mine = self.model_dump()
        known = {key: mine[key] for key in QmixConfig.model_fields if key in mine}
        return QmixConfig(mixer="none", normalize_rewards=False, **known)

    @property
    def acting(self) -> dict[str, Any]:
        return {"dueling": self.dueling, "anticipatory": self.anticipatory}
