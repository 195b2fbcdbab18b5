"""What is told of long work."""

from __future__ import annotations

import pytest

from marl.analysis import progress


def test_outside_of_a_terminal_progress_is_told_in_lines_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    with progress.progress_bar("episodes") as tell:
        tell(10, 2_000)
        monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 1e9)
        tell(20, 2_000)
    told = capsys.readouterr()
    assert told.err == "episodes: 10 of 2,000\n"
    assert told.out == ""
