"""Keys that mean something together, and keys that would be ignored."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from marl.algos.maddpg.config import MaddpgConfig
from marl.algos.sac.config import SacConfig

OWN: dict[type[Any], dict[str, float]] = {
    MaddpgConfig: {"actor_lr": 1e-3, "critic_lr": 2e-3},
    SacConfig: {"actor_lr": 1e-3, "critic_lr": 2e-3, "alpha_lr": 3e-3},
}


@pytest.mark.parametrize("config", list(OWN))
def test_a_common_step_size_is_refused_only_where_every_optimiser_has_its_own(config: type[Any]) -> None:
    own = OWN[config]
    assert config(**own).critic_lr == 2e-3
    some = dict(list(own.items())[1:])
    assert config(lr=0.5, **some).lr == 0.5
    for common in ({"lr": 0.5}, {"lr_schedule": [(0, 0.5)]}):
        with pytest.raises(ValidationError, match=f"{next(iter(common))}: .* needs no actor_lr.*actor_lr is 0.001"):
            config(**own, **common)


@pytest.mark.parametrize("points", [[], [(5, 1.0), (5, 2.0)], [(5, 1.0), (3, 2.0)]])
def test_a_schedule_needs_growing_times(points: list[tuple[int, float]]) -> None:
    with pytest.raises(ValidationError, match="growing env steps"):
        SacConfig(lr_schedule=points)
    assert SacConfig(lr_schedule=[(3, 1.0), (5, 2.0)]).lr_schedule == [(3, 1.0), (5, 2.0)]
