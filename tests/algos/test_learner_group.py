"""Members of a learner group share rows without gap or overlap, and what they sum is what one learner would have computed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from marl.algos.config import OptimizerConfig
from marl.algos.learner_group import LearnerGroup, LearnerGroupError
from marl.algos.optimiser import FlatOptimiser
from tests.algos.learner_groups import together
from tests.algos.updates import small_run


def members(size: int) -> list[LearnerGroup]:
    """Members that know their place but nobody else."""
    groups = [LearnerGroup() for _ in range(size)]
    for rank, group in enumerate(groups):
        group.rank, group.size = rank, size
    return groups


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("rows", [1, 2, 4, 7, 4096])
def test_every_row_has_one_owner_and_weights_sum_to_one(size: int, rows: int) -> None:
    groups = members(size)
    owned = [i for group in groups if group.weight(rows) > 0 for i in range(rows)[group.share(rows)]]
    assert owned == list(range(rows))
    assert sum(group.weight(rows) for group in groups) == pytest.approx(1.0)


def test_a_member_without_rows_repeats_the_first_one_with_weight_zero() -> None:
    idle = members(3)[0]  # of 2 rows the other two members have one each
    assert (idle.share(2), idle.weight(2)) == (slice(0, 1), 0.0)


def test_a_learner_alone_takes_all_rows_and_sums_nothing() -> None:
    alone, numbers = LearnerGroup(), torch.arange(5.0)
    assert (alone.share(5), alone.weight(5)) == (slice(0, 5), 1.0)
    assert alone.sum_(numbers) is numbers
    assert alone.gather(numbers, 5) is numbers


class Untouchable(LearnerGroup):
    """A learner alone that must not be asked for shares or sums."""

    def bounds(self, rows: int) -> tuple[int, int]:
        raise AssertionError("asked for a share")

    def sum_(self, tensor: Tensor) -> Tensor:
        raise AssertionError("asked for a sum")


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_an_update_of_one_learner_has_nothing_to_do_with_the_others(algo: str) -> None:
    with small_run(algo) as trainer:
        trainer.learners[0].learner_group = Untouchable()
        trainer.train()
        assert trainer.learners[0].counters["num_updates"] > 0


def test_a_learner_of_a_user_still_finds_its_group_under_the_old_name() -> None:
    with small_run("ppo") as trainer:
        learner, group = trainer.learners[0], LearnerGroup()
        assert learner.crew is learner.learner_group
        learner.crew = group
        assert learner.learner_group is group


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_gathering_gives_everybody_all_rows_in_order(rows: int) -> None:
    errors = torch.arange(2.0 * rows).view(rows, 2)
    for found in together(3, lambda group: group.gather(errors[group.share(rows)], rows)):
        assert isinstance(found, Tensor)
        assert torch.equal(found, errors)


def test_metrics_of_members_become_the_metrics_of_the_whole_minibatch() -> None:
    losses = torch.tensor([1.0, 2.0, 6.0])  # mean 3

    def mine(group: LearnerGroup) -> list[dict[str, Tensor]]:
        return group.sum_metrics([{"loss": losses[group.share(3)].mean() * group.weight(3)}])

    assert [float(found[0]["loss"]) for found in together(2, mine)] == pytest.approx([3.0, 3.0])  # type: ignore[index]


def linear(seed: int = 0) -> tuple[torch.nn.Linear, FlatOptimiser]:
    torch.manual_seed(seed)
    net = torch.nn.Linear(4, 1)
    return net, FlatOptimiser(net.parameters(), OptimizerConfig(), 0.01, "net")


@pytest.mark.parametrize("rows", [1, 5, 64])
def test_three_members_step_as_one_learner_with_the_joined_minibatch(rows: int) -> None:
    generator = torch.Generator().manual_seed(1)
    batches = [torch.randn(rows, 5, generator=generator) for _ in range(4)]
    nets = [linear() for _ in range(4)]  # one learner alone, and three members

    def learn(group: LearnerGroup) -> Tensor:
        net, optimiser = nets[group.rank if group.size > 1 else 3]
        for batch in batches:
            mine = batch[group.share(rows)]
            optimiser.zero()
            loss = (net(mine[:, :4]).squeeze(1) - mine[:, 4]).square().mean() * group.weight(rows)
            loss.backward()  # type: ignore[no-untyped-call]
            norm = optimiser.step(0.5, 0.01, group)
        return torch.cat([optimiser.flat, norm[None]])

    expected = learn(LearnerGroup())
    found: Sequence[object] = together(3, learn)
    assert all(isinstance(one, Tensor) and torch.equal(one, found[0]) for one in found)  # type: ignore[arg-type]
    assert torch.allclose(found[0], expected, atol=1e-6)  # type: ignore[arg-type]


def test_a_gradient_that_is_no_number_anywhere_stops_everybody() -> None:
    def learn(group: LearnerGroup) -> None:
        _, optimiser = linear()
        optimiser.grad.fill_(float("nan") if group.rank == 1 else 1.0)
        optimiser.step(None, 0.01, group)

    assert ["gradient of net became nan" in str(error) for error in together(2, learn)] == [True, True]


def test_a_member_that_leaves_ends_the_wait_of_the_others() -> None:
    def leave(group: LearnerGroup) -> Tensor | None:
        if group.rank == 1:
            group.close()
            return None
        return group.sum_(torch.ones(1))

    waiting, left = together(2, leave)
    assert isinstance(waiting, LearnerGroupError)
    assert "lost the others" in str(waiting)
    assert left is None


def test_nobody_can_sum_after_leaving() -> None:
    def leave(group: LearnerGroup) -> None:
        group.sum_(torch.ones(1))  # everybody has arrived
        group.close()
        with pytest.raises(LearnerGroupError, match="has left its crew"):
            group.sum_(torch.ones(1))

    assert together(2, leave) == [None, None]
