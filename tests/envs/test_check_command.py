"""``marl check`` as a person and as a machine uses it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from marl.cli import main
from marl.envs.check import CATALOG

BAD = "tests.envs.bad_envs"


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """``marl check ...`` in this process: exit code, what it printed, what it said on stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["marl", "check", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capfd.readouterr()
        assert isinstance(stopped.value.code, int)
        return stopped.value.code, out, err

    return run


def test_a_sound_env_exits_with_0_and_is_described(check: Any) -> None:
    code, out, _ = check("two_step_game")
    assert code == 0
    assert "agent_0, agent_1: sees MultiDiscrete([2 2 2 3]), does Discrete(2)" in out
    assert "10 whole ones under random play: 2.0 steps (2 to 2)" in out
    assert out.splitlines()[-1] == "two_step_game: no problems found"


def test_an_error_exits_with_2_and_is_one_line_with_its_remedy(check: Any) -> None:
    code, out, err = check(f"{BAD}:EmptyMask", "--episodes", "1")
    assert code == 2
    lines = [line for line in out.splitlines() if line.startswith("error")]
    assert lines == [
        "error     [mask-empty] step 4: agent 'a_0' is asked, but its action_mask is empty. (2 times) Allow at least one "
        "action, or end the agent."
    ]
    assert out.splitlines()[-1] == f"{BAD}:EmptyMask: 1 error(s), 0 warning(s)"
    assert err == ""


def test_a_warning_alone_exits_with_0(check: Any) -> None:
    code, out, _ = check(f"{BAD}:SharedObs")
    assert code == 0
    assert out.splitlines()[-1].endswith("0 error(s), 1 warning(s)")


def test_json_holds_the_same_for_machines(check: Any) -> None:
    code, out, _ = check(f"{BAD}:NotANumber", "--json", "--seed", "3", "--steps", "20")
    report = json.loads(out)
    assert code == 2
    assert not report["passed"]
    assert [(p["code"], p["level"]) for p in report["problems"]] == [("obs-nan", "error")]
    assert report["random_play"]["steps"] == 20


def test_env_config_and_wrappers_reach_the_env(check: Any) -> None:
    _, out, _ = check(
        "pettingzoo:mpe2/simple_spread_v3", "--config", '{"N": 2}', "--wrapper", '{"frame_stack_v1": {"stack_size": 3}}',
        "--episodes", "1",
    )  # fmt: skip
    assert "agent_0, agent_1: sees Box(-inf, inf, (36,), float32)" in out


def test_an_unknown_env_is_a_mistake_of_the_user(check: Any) -> None:
    code, _, err = check("two_stp_game")
    assert code == 2
    assert "Did you mean 'two_step_game'?" in err


def test_the_page_explains_every_finding_with_its_level() -> None:
    page = (Path(__file__).parents[2] / "docs" / "check.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `") and "--" not in line}
    assert set(rows) == set(CATALOG)
    for code, rule in CATALOG.items():
        assert f"| {'error' if rule.severe else 'warning'} |" in rows[code], code
