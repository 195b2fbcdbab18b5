"""What a trial asks Ray for."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from marl.errors import ConfigError, ResourceError
from marl.scenario.config import Scenario
from marl.scenario.load import compose
from marl.tune.config import tune_config
from marl.tune.resources import check_fits, request, total


def scenario(**keys: Any) -> Scenario:
    return compose({"env": "two_step_game", **keys})


def test_a_trial_asks_for_a_cpu_and_one_bundle_per_worker_and_further_learner() -> None:
    keys = {"num_workers": 2, "num_cpus_per_worker": 0.5, "num_learners": 2, "custom_resources_per_worker": {"port": 1}}
    worker = {"CPU": 0.5, "port": 1.0}
    assert request(None, scenario(**keys), {}) == [{"CPU": 1.0}, worker, worker, {"CPU": 1.0}]
    assert request(None, scenario(num_workers=0), {}) == [{"CPU": 1.0}]


def test_a_fraction_of_a_gpu_is_requested_as_given() -> None:
    assert request(None, scenario(num_gpus=0.2, device="auto"), {}) == [{"CPU": 1.0, "GPU": 0.2}]
    assert request({"cpu": 0, "gpu": 0.2}, None, {}) == [{"GPU": 0.2}]


def test_functions_of_the_spec_are_asked_for_each_trial() -> None:
    wanted = {"cpu": 2, "extra_cpu": lambda spec: 2 * spec.config.num_workers, "gpu": lambda spec: spec.config["share"]}
    for workers in (1, 3):
        bundles = request(wanted, scenario(num_workers=workers), {"num_workers": workers, "share": 0.5})
        assert bundles == [{"CPU": 2.0, "GPU": 0.5}, *[{"CPU": 2.0}] * workers]
    assert request(lambda spec: {"cpu": spec.config.n}, None, {"n": 3}) == [{"CPU": 3.0}]
    assert request(None, None, {"num_workers": 2}) == [{"CPU": 1.0}] * 3  # a function's config may ask for workers
    assert request({"extra_cpu": 2}, None, {}) == [{"CPU": 1.0}, {"CPU": 2.0}]


def test_extra_cpus_that_are_not_enough_for_the_workers_are_refused() -> None:
    with pytest.raises(ResourceError, match=r"3 workers need 1 CPU each, but extra_cpu is 2\. Give at least 3"):
        request({"extra_cpu": 2}, scenario(num_workers=3), {})


@pytest.mark.parametrize("wanted", [lambda _: 3, {"cpu": lambda _: -1}, {"cpu": lambda _: "two"}, lambda _: {"ram": 1}])
def test_an_answer_that_is_no_amount_is_refused(wanted: Any) -> None:
    with pytest.raises(ConfigError, match="resources_per_trial"):
        request(wanted, None, {})


class Factory:
    """As Ray's PlacementGroupFactory, which refuses bundles of nothing by itself."""

    bundles: ClassVar = [{"CPU": 2.0}, {"CPU": 1.0}]


@pytest.mark.parametrize(
    ("wanted", "workers", "bundles"),
    [
        ([{"CPU": 1}, {"GPU": 0}, {"CPU": 1}, {"CPU": 1}], 2, [{"CPU": 1.0}] * 3),
        (({"CPU": 1, "GPU": 0.5},), 0, [{"CPU": 1.0, "GPU": 0.5}]),
        (Factory(), 1, Factory.bundles),
    ],
)
def test_bundles_as_ray_takes_them_are_requested_as_given(
    wanted: Any, workers: int, bundles: list[dict[str, float]]
) -> None:
    chosen = tune_config({"resources_per_trial": wanted}, "test").resources_per_trial
    assert request(chosen, scenario(num_workers=workers), {}) == bundles  # type: ignore[arg-type]


def test_bundles_that_leave_a_worker_without_one_are_refused_with_the_line_to_write() -> None:
    with pytest.raises(
        ResourceError, match=r"has 1 bundle\(s\).*2 workers.*\[\{'CPU': 1\.0\}, \{'CPU': 1\.0\}, \{'CPU': 1\.0\}\]"
    ):
        request([{"CPU": 1.0}, {"CPU": 1.0}], scenario(num_workers=2), {})


@pytest.mark.parametrize("wanted", [[], [3], [{"CPU": -1}], [{"CPU": "one"}], ({1: 1},)])
def test_what_is_no_list_of_bundles_is_refused(wanted: Any) -> None:
    with pytest.raises(ConfigError, match="what each process gets"):
        tune_config({"resources_per_trial": wanted}, "test")


def test_a_trial_that_never_fits_is_refused_with_the_sums() -> None:
    bundles = [{"CPU": 1.0}, {"CPU": 2.0}]
    assert total(bundles) == {"CPU": 3.0}
    check_fits(bundles, {"CPU": 3.0}, "trial 0")
    with pytest.raises(ResourceError, match="trial 0 asks for 3 CPU, but Ray has 2"):
        check_fits(bundles, {"CPU": 2.0}, "trial 0")
    with pytest.raises(ResourceError, match=r"asks for 0\.5 GPU, but Ray has 0"):
        check_fits([{"GPU": 0.5}], {"CPU": 2.0}, "trial 0")
