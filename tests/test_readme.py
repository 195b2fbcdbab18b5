"""The README tells the truth: its Python blocks run, its files exist, its YAML is a valid scenario."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import marl
from marl.scenario.load import compose
from marl.scenario.resolve import resolve

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
TRAINING = [block for block in BLOCKS if "Trainer(" in block]


def test_the_block_of_games_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = (block for block in BLOCKS if block not in TRAINING)
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    *equilibria, value, distance = capsys.readouterr().out.splitlines()
    assert len(equilibria) == 3
    assert float(value) == pytest.approx(-1 / 18)
    assert float(distance) == pytest.approx(0.0024, abs=5e-5)


@pytest.mark.parametrize("block", TRAINING, ids=range(len(TRAINING)))
@pytest.mark.slow
def test_a_python_block_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "readme"}
    exec(compile(block, "README.md", "exec"), names)
    assert isinstance(names["trainer"], marl.Trainer)
    assert names["trainer"].iteration > 0


def test_the_yaml_blocks_are_scenarios() -> None:
    spread, first, wrapped = (
        resolve(compose(yaml.safe_load(block))) for block in re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    )
    assert spread.scenario.preset.name == "mappo"
    assert first.scenario.preset.name == "qmix"
    assert [kind.obs_width for kind in wrapped.task.kinds] == [32]  # 16 numbers, twice


def test_the_six_lines_on_the_first_screen_are_those_of_the_scenario_that_was_filmed() -> None:
    block = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)[0]
    shipped = yaml.safe_load((ROOT / "scenarios" / "fast_spread.yaml").read_text(encoding="utf-8"))
    shown = yaml.safe_load(block)
    assert len(block.splitlines()) == 6
    assert shown.pop("algo").items() <= shipped.pop("algo").items()
    assert shown.items() <= shipped.items()


def test_the_table_of_results_says_what_the_proofs_say() -> None:
    proofs = (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\w+)\]\(docs/proofs\.md#\1\) \| [^|]+ \| (.+) \|$", README, re.MULTILINE)
    assert len(rows) >= 10
    for name, figures in rows:
        _, budget, holds, _, best, last, _ = re.search(rf"^\| {name} \| (.+) \|$", proofs, re.MULTILINE)[1].split(" | ")  # type: ignore[index]
        assert figures == f"{budget} | {holds.split()[0]} | {best} | {last}", f"README.md: the row of {name}"


def test_the_moving_picture_is_small_enough_for_a_first_screen() -> None:
    (film,) = re.findall(r"\]\((docs/pictures/\w+\.gif)\)", README)
    assert (ROOT / film).stat().st_size < 600_000


def test_linked_and_named_files_exist() -> None:
    linked = re.findall(r"\]\(((?!http)[^)#]+)\)", README)
    named = re.findall(r"scenarios/\w+\.yaml", README)
    for path in {*linked, *named}:
        assert (ROOT / path).exists(), path
