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


def test_the_yaml_block_is_a_scenario() -> None:
    first, wrapped = (
        resolve(compose(yaml.safe_load(block))) for block in re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    )
    assert first.scenario.preset.name == "qmix"
    assert [kind.obs_width for kind in wrapped.task.kinds] == [32]  # 16 numbers, twice


def test_linked_and_named_files_exist() -> None:
    linked = re.findall(r"\]\(((?!http)[^)#]+)\)", README)
    named = re.findall(r"scenarios/\w+\.yaml", README)
    for path in {*linked, *named}:
        assert (ROOT / path).exists(), path
