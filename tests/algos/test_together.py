"""Jobs of several learners that are done in one go, and bodies of code that wait for each other to do so."""

from __future__ import annotations

import contextvars
from collections.abc import Callable

import pytest
import torch

from marl.algos import together
from marl.training.lockstep import Lockstep
from tests.algos.stacked_job import Net, Step, steps_of

SHAPES = [(1, 1), (6, 5), (18, 1), (18, 5), (54, 1), (30, 6)]  # inputs, outputs
ROWS = [1, 5, 50, 64, 401]


def learn(seed: int, inputs: int, outputs: int, rows: int, steps: int = 2) -> torch.Tensor:
    """What a seed does in a stack: a few steps, each handed in."""
    net = Net(inputs, outputs, seed)
    for number in range(steps):
        together.update([steps_of(net, 100 * seed + number, rows, rate=0.1 / (1 + seed))])
    return net.flat


def in_stack(seeds: list[int], inputs: int, outputs: int, rows: int) -> dict[int, torch.Tensor]:
    bodies = [lambda seed=seed: learn(seed, inputs, outputs, rows) for seed in seeds]
    outcomes = Lockstep(bodies).run()
    return dict(zip(seeds, outcomes, strict=True))  # type: ignore[arg-type]


def disagreements() -> list[tuple[int, int, int, int]]:
    """Shapes in which the numbers of a seed depend on who else is in its stack."""
    found = []
    for inputs, outputs in SHAPES:
        for rows in ROWS:
            whole_stack = in_stack(list(range(12)), inputs, outputs, rows)
            for seeds in ([3], [3, 4], [7, 3, 5], [11, 10, 3, 2, 1]):
                part = in_stack(seeds, inputs, outputs, rows)
                if any(not torch.equal(part[seed], whole_stack[seed]) for seed in seeds):
                    found.append((inputs, outputs, rows, len(seeds)))
    return found


def test_numbers_of_a_seed_are_the_same_bit_for_bit_in_every_stack() -> None:
    assert disagreements() == []


@pytest.mark.parametrize("missing", ["pad", "in_twos"])
def test_without_whole_slices_or_a_companion_they_would_not_be(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.backends.mkl.is_available():
        pytest.skip("other libraries multiply each matrix by itself")
    monkeypatch.setattr(Step, missing, False)
    assert disagreements()


def test_a_stack_agrees_with_steps_that_are_made_one_by_one() -> None:
    stack = in_stack([0, 1, 2], 18, 5, 50)
    for seed, flat in stack.items():
        assert torch.allclose(learn(seed, 18, 5, 50), flat, atol=1e-6)


class Counted:
    """A job that notes in which company it was done."""

    companies: list[int] = []  # noqa: RUF012

    def __init__(self, key: str, result: object = None) -> None:
        self.key, self.result = key, result

    @classmethod
    def run_together(cls, jobs: list[Counted]) -> list[object]:
        Counted.companies.append(len(jobs))
        return [job.result for job in jobs]


@pytest.fixture
def companies() -> list[int]:
    Counted.companies.clear()
    return Counted.companies


def test_jobs_of_one_caller_with_equal_keys_go_together_without_a_stack(companies: list[int]) -> None:
    assert together.update([Counted("a", 1), Counted("b", 2), Counted("a", 3)]) == [1, 2, 3]
    assert companies == [2, 1]
    assert not together.stacked()


def test_bodies_wait_until_all_have_come_and_those_that_end_early_are_not_waited_for(companies: list[int]) -> None:
    def body(times: int) -> Callable[[], int]:
        def run() -> int:
            assert together.stacked()
            return sum(together.update([Counted("a", 1)])[0] for _ in range(times))

        return run

    assert Lockstep([body(1), body(3), body(2)]).run() == [1, 3, 2]
    assert companies == [3, 2, 1]


def test_who_has_less_to_do_in_an_iteration_meets_the_others_at_its_end(companies: list[int]) -> None:
    order = []

    def body(name: str, updates: int) -> Callable[[], int]:
        def run() -> int:
            for iteration in range(2):
                for _ in range(updates):
                    together.update([Counted("a")])
                order.append((iteration, name))
                together.meet()
            return 0

        return run

    Lockstep([body("idle", 0), body("busy", 3), body("short", 1)]).run()
    assert [iteration for iteration, _ in order] == [0, 0, 0, 1, 1, 1]
    assert companies == [2, 1, 1] * 2


def test_an_error_of_one_job_ends_its_body_alone(companies: list[int]) -> None:
    def body(result: object) -> Callable[[], object]:
        def run() -> object:
            together.update([Counted("a", result)])
            return together.update([Counted("a", result)])[0]

        return run

    wrong = ValueError("not a number")
    good, failed, also_good = Lockstep([body(1), body(wrong), body(2)]).run()
    assert (good, failed, also_good) == (1, wrong, 2)
    assert companies == [3, 2]


def test_each_body_has_the_context_of_the_caller_and_its_own_changes() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")
    name.set("caller")

    def body(mine: str) -> Callable[[], tuple[str, str]]:
        def run() -> tuple[str, str]:
            before = name.get()
            name.set(mine)
            together.update([Counted("a")])
            return before, name.get()

        return run

    assert Lockstep([body("one"), body("two")]).run() == [("caller", "one"), ("caller", "two")]
    assert name.get() == "caller"


def test_a_body_that_waits_without_gradients_finds_the_mode_as_it_left_it() -> None:
    seen = []

    def without() -> int:
        with torch.no_grad():
            together.update([Counted("a")])
            seen.append(torch.is_grad_enabled())
        return 0

    def with_gradients() -> int:
        seen.append(torch.is_grad_enabled())
        together.update([Counted("a")])
        seen.append(torch.is_grad_enabled())
        return 0

    Lockstep([without, with_gradients, without]).run()
    assert seen == [True, False, True, False]
    assert torch.is_grad_enabled()


def test_ctrl_c_in_one_body_reaches_the_others_where_they_wait() -> None:
    heard = []

    def waits() -> int:
        try:
            together.update([Counted("a")])
            together.update([Counted("a")])
        except KeyboardInterrupt:
            heard.append("waits")
            raise
        return 0

    def pressed() -> int:
        together.update([Counted("a")])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Lockstep([waits, pressed, waits]).run()
    assert heard == ["waits", "waits"]
