"""The tour of the docs can be walked, and the page shows what its commands print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from docs.tour import PAGE, PICTURES, STEP, Tour


def shape(text: str) -> list[str]:
    """The lines without numbers, ids and spaces; how many results are printed depends on the speed of the machine."""
    lines = [line for line in text.splitlines() if not line.startswith("iter ")]
    plain = [re.sub(r"game_[0-9a-f]{5}_|^[0-9a-f]{5} |\d[\d.,]*", "#", line) for line in lines]
    return [" ".join(line.split()) for line in plain]


def evaluated(folder: Path) -> list[int]:
    """How often each run below a folder was evaluated."""
    counts = []
    for file in sorted(folder.rglob("result.json")):
        results = [json.loads(line) for line in file.read_text().splitlines()]
        counts.append(sum("evaluation" in result for result in results))
    return counts


@pytest.mark.slow
@pytest.mark.ray
def test_every_command_of_the_tour_prints_what_the_page_shows(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    tour = Tour(tmp_path)
    walked = tour.walk(page)
    stopped, *others = [seen.code for seen in tour.seen]
    assert stopped == 130, "Ctrl-C ends a run with this code"
    assert {*others} == {0}, tour.seen
    shown = [found["output"] for found in STEP.finditer(page) if found["note"] == "tour"]
    assert [shape(seen.output) for seen in tour.seen] == [shape(output) for output in shown]
    assert [found["output"] for found in STEP.finditer(walked) if found["note"] == "tour"] == [
        seen.output for seen in tour.seen
    ]
    for picture, kept in PICTURES.items():
        assert (tmp_path / picture).stat().st_size > 1_000
        assert f"](pictures/{kept})" in page, "the page shows it"
    evaluations = evaluated(tmp_path / "results" / "compare")
    assert len(evaluations) == 8, "four seeds of two scenarios"
    assert min(evaluations) > 3, "curves, not a single point"


def test_a_step_is_run_where_it_stands_and_its_output_replaces_the_old_one(tmp_path: Path) -> None:
    page = (
        "a\n\n<!-- file: note.txt -->\n```text\nkept\n```\n\n<!-- tour -->\n```bash\ncat note.txt\n```\n\n```text\nold\n```\n"
        "b\n\n<!-- tour: Ctrl-C after now -->\n```bash\necho now; sleep 60\n```\n\n```text\n```\nc\n"
    )
    tour = Tour(tmp_path)
    walked = tour.walk(page)
    assert "cat note.txt\n```\n\n```text\nkept\n```\nb\n" in walked
    assert walked.endswith("sleep 60\n```\n\n```text\nnow\n```\nc\n")
    assert [seen.code for seen in tour.seen] == [0, -2]  # ended by SIGINT
