"""Texts of a stranger's files on a terminal and in a page: shown as they are, obeyed by nobody."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from marl.analysis.report.content import Grid, Section, Words
from marl.analysis.report.page import as_page, as_text
from marl.errors import CheckpointError, printable
from marl.runs.checkpoint import find_checkpoint
from marl.runs.curve import draw_rewards
from marl.runs.saved import stored_scenario
from tests.forgeries import edit_part, forge, real_run, write_sealed
from tests.trust.conftest import Command

ESCAPES = "\x1b]0;owned\x07\x1b[31m"
SCRIPT = "</title></script><script>alert(1)</script><img src=x onerror=alert(1)>"


def test_characters_that_a_terminal_obeys_are_spelled_out() -> None:
    assert printable("a\x1b[31mb\x07\x9b\u202e\ttab\nline é 日本 ±") == (
        "a\\x1b[31mb\\x07\\x9b\\u202e\ttab\nline é 日本 ±"
    )


@pytest.mark.parametrize(
    "changes",
    [{"env": f"x{ESCAPES}"}, {"name": ESCAPES}, {"policies": {f"p{ESCAPES}": {}}}, {"env_config": {"a": [ESCAPES]}}],
)
def test_a_scenario_with_control_characters_is_refused(
    changes: dict[str, Any], run: Path, tmp_path: Path, marl: Command
) -> None:
    path = forge(run, tmp_path / "forged", **changes)
    for command in (["run", "--resume", path], ["rollout", path], ["export", path, "--out", tmp_path / "out"]):
        code, _, said = _plain(marl, *command)
        assert code == 2
        assert "control characters" in said


def test_texts_of_runs_are_listed_without_control_characters(run: Path, tmp_path: Path, marl: Command) -> None:
    path = tmp_path / "all" / "run"
    shutil.copytree(run, path)
    params = json.loads((path / "params.json").read_text())
    params["algo"]["name"] = f"[red]ppo{ESCAPES}"
    (path / "params.json").write_text(json.dumps(params))
    (path / "state.json").write_text(json.dumps({"state": "failed", "error": f"[bold]why{ESCAPES}"}))
    code, out, said = _plain(marl, "runs", tmp_path / "all")
    assert code == 0, said
    assert "[red]ppo\\x1b]0;owned\\x07" in out
    assert "[bold]why\\x1b" in out


def test_texts_of_recordings_are_told_without_control_characters(tmp_path: Path, marl: Command) -> None:
    real_run(tmp_path / "run", output=str(tmp_path / "data"))
    manifest = tmp_path / "data" / "trajectories.json"
    told = json.loads(manifest.read_text())
    told["policies"] = [f"[red]{ESCAPES}"]
    told["env"] = f"env{ESCAPES}"
    write_sealed(manifest, told)
    for options in (["--list"], ["--steps", "1"]):
        code, out, said = _plain(marl, "replay", tmp_path / "data", *options)
        assert code == 0, said
    assert "[red]\\x1b]0;owned" in out


def _plain(marl: Command, *words: object) -> tuple[int, str, str]:
    """A command that prints nothing which a terminal would obey."""
    code, out, said = marl(*words)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", out + said)
    return code, out, said


def test_every_text_of_a_page_is_escaped() -> None:
    page, harmless = _page_of(SCRIPT), _page_of("a word")
    # The page has scripts of its own; strange texts must not add any.
    assert page.count("<script") == harmless.count("<script")
    assert page.count("</script") == harmless.count("</script")
    assert "<img" not in page
    assert page.count("&lt;script&gt;") >= 7


def _page_of(text: str) -> str:
    grid = Grid(text, [text, text], [[text, text]])
    return as_page(text, text, [Section("key", text, [Words(text), grid])])


def test_the_text_of_a_report_has_no_control_characters() -> None:
    text = as_text(f"Report{ESCAPES}", [Section("key", ESCAPES, [Words(ESCAPES)])])
    assert "\x1b" not in text


def test_dollars_in_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    rewards = {r"$\frac$": 1.0, "b$": 2.0}
    results = [{"timesteps_total": 1, "episode_reward_mean": 1.0, "policy_reward_mean": rewards}]
    assert draw_rewards(results, r"$\undefined", tmp_path / "curve.png").is_file()


def test_a_checkpoint_without_a_scenario_is_refused(run: Path, tmp_path: Path) -> None:
    path = forge(run, tmp_path / "forged")
    edit_part(find_checkpoint(path), "run", lambda part: part.update(scenario=[1]))
    with pytest.raises(CheckpointError, match="has no scenario"):
        stored_scenario(find_checkpoint(path))
