"""The list of PettingZoo envs: complete, run for one env per family and feature, and told truthfully in docs/envs.md."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import Any

import pytest

from marl.envs.check.examine import STEPS
from proofs.__main__ import ROOT, main
from proofs.declaration import Places
from proofs.envs import Case, CaseResult, read_case, read_sweep, write_case
from proofs.envs_page import BEGIN, END, envs_table, short_space, write_envs_page
from proofs.sweep import run_case

pytestmark = pytest.mark.slow  # whole runs or processes

PLACES = Places(ROOT)
SWEEP = read_sweep(PLACES)
CASES = {case.name: case for case in SWEEP.cases}
FAMILIES = {
    "classic": "pettingzoo.classic",
    "butterfly": "pettingzoo.butterfly",
    "sisl": "pettingzoo.sisl",
    "mpe2": "mpe2",
}


# -- the list ----------------------------------------------------------------------------------------------------------


def test_the_list_holds_every_env_of_its_families_and_there_are_at_least_24() -> None:
    installed = {
        f"{family}/{module.name}"
        for family, package in FAMILIES.items()
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__)
        if "_v" in module.name
    }
    assert installed == set(CASES)
    assert len(CASES) >= 24


def test_what_make_test_takes_covers_every_family() -> None:
    assert {name.split("/")[0] for name, case in CASES.items() if case.in_tests} == set(FAMILIES)


@pytest.mark.parametrize("case", [c for c in CASES.values() if c.in_tests], ids=lambda case: case.in_tests)
def test_an_env_is_checked_trained_and_played_without_user_code(case: Case) -> None:
    result = run_case(case, check_steps=60 if case.in_tests == "images" else STEPS)
    assert result.complaints(case) == []
    assert result.env_steps == 64
    assert result.rollout.startswith("40 env steps")


def test_a_missing_package_fails_the_sweep_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [
        name for name in sys.modules if name.startswith(("pettingzoo.classic.leduc", "pettingzoo.classic.rlcard"))
    ]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "rlcard", None)
    case = CASES["classic/leduc_holdem_v4"]
    result = run_case(case)
    (complaint,) = result.complaints(case)
    assert "rlcard" in complaint
    assert "pip install 'pettingzoo[FAMILY]'" in complaint


def test_an_unexpected_finding_and_a_stale_expectation_both_fail() -> None:
    case = Case(name="f/x_v1", findings={"remembers": "It does."})
    fine = {"losses": {"p": 0.5}, "env_steps": 64}
    assert CaseResult("f/x_v1", findings={"remembers": "text"}, **fine).complaints(case) == []
    assert CaseResult("f/x_v1", **fine).complaints(case) == ["check no longer finds 'remembers'"]
    both = CaseResult("f/x_v1", findings={"remembers": "text", "obs-nan": "NaN!"}, **fine)
    assert both.complaints(case) == ["check says: NaN!"]
    nan = CaseResult("f/x_v1", findings={"remembers": ""}, losses={"p": float("nan")}, unchanged=["p"])
    assert nan.complaints(case) == ["training changed nothing in p", "losses {'p': nan}"]


# -- the page ----------------------------------------------------------------------------------------------------------


def test_the_table_of_the_docs_is_the_one_that_the_results_give() -> None:
    text = (ROOT / "docs" / "envs.md").read_text()
    assert text.split(BEGIN)[1].split(END)[0].strip() == envs_table(SWEEP, PLACES).strip()


def test_every_env_of_the_list_has_a_result_and_holds() -> None:
    for case in CASES.values():
        result = read_case(case, PLACES)
        assert result is not None, case.name
        assert result.complaints(case) == [], case.name


def test_the_page_tells_a_failure_and_keeps_the_text_around_the_table(tmp_path: Any) -> None:
    places = Places(tmp_path)
    page = tmp_path / "docs" / "envs.md"
    page.parent.mkdir()
    (tmp_path / "proofs").mkdir()
    (tmp_path / "proofs" / "envs.yaml").write_text("envs: {classic/no_such_v1: , classic/rps_v2: }\n")
    page.write_text(f"before\n{BEGIN}\nan earlier table\n{END}\nafter\n")
    sweep = read_sweep(places)
    write_case(sweep.cases[0], places, CaseResult("classic/no_such_v1", failure="check: cannot be loaded | at all"))
    assert write_envs_page(sweep, places) == page
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "2 envs in the list, 0 hold." in text
    assert "**no**: check: cannot be loaded / at all" in text
    assert "| `classic/rps_v2` | | | | | | | not run | | | |" in text
    assert "an earlier table" not in text


@pytest.mark.slow
def test_the_command_runs_an_env_once_and_fails_for_one_that_cannot_be_loaded(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "proofs").mkdir()
    (tmp_path / "proofs" / "proofs.yaml").write_text("{}\n")
    (tmp_path / "proofs" / "envs.yaml").write_text("envs: {classic/rps_v2: , classic/no_such_v1: }\n")
    assert main(["--only", "classic/rps*"], tmp_path) == 0
    assert main(["--only", "classic/*"], tmp_path) == 1
    out = capsys.readouterr().out
    assert "1 envs are up to date, skipped" in out
    assert "classic/no_such_v1: check: pettingzoo:classic/no_such_v1 cannot be loaded" in out
    assert "1 of 2 proofs hold" in out


def test_spaces_are_shown_without_their_bounds() -> None:
    assert short_space("Box(-inf, inf, (18,), float32)") == "Box 18 float32"
    assert short_space("Box(0.0, [1. 1.\n 1.], (3, 4), float64)") == "Box 3x4 float64"
    assert (
        short_space("Dict('a': Box(0, 1, (2,), int8), 'b': Discrete(3))") == "Dict('a': Box 2 int8, 'b': Discrete(3))"
    )
