"""What a learner says of its state is all that it is told: a new learner that is given it says the same."""

from __future__ import annotations

from typing import Any

import pytest

from marl.algos.presets import ALGOS
from marl.data.tree import pack, unpack
from tests.algos.updates import small_run
from tests.training.trees import differences


def copied(state: Any) -> Any:
    return unpack(*pack(state))


@pytest.mark.parametrize("algo", list(ALGOS))
def test_a_learner_that_is_given_a_state_has_every_part_of_it(algo: str) -> None:
    with small_run(algo) as taught, small_run(algo, seed=6) as new:
        taught.train()
        for mine, other in zip(taught.learners, new.learners, strict=True):
            state = copied(mine.state_dict())
            before = differences(copied(other.state_dict()), state)
            assert len(before) > 2  # another seed, and nothing learned yet
            other.load_state_dict(copied(state))
            assert differences(copied(other.state_dict()), state) == []
            assert mine.shares_minibatches == (ALGOS[algo].family.name not in ("deep_cfr", "es", "tabular"))
