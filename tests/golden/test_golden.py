"""Every game still plays as recorded; ``python -m tests.golden.record`` records anew."""

import json

import numpy as np
import pytest

from tests.golden.record import GAMES, path, play


@pytest.mark.parametrize("name", GAMES)
def test_a_game_plays_as_recorded(name: str) -> None:
    recorded = json.loads(path(name).read_text())
    frames = play(GAMES[name](), recorded["actions"])
    assert len(frames) == len(recorded["frames"])
    for number, (frame, expected) in enumerate(zip(frames, recorded["frames"], strict=True)):
        assert frame["born"] == expected["born"], f"frame {number}"
        assert frame["legal"] == expected.get("legal", []), f"frame {number}"
        for column in expected.keys() - {"born", "obs", "legal"}:
            np.testing.assert_allclose(frame[column], expected[column], atol=1e-4, err_msg=f"frame {number}: {column}")
        for seen, expected_obs in zip(frame["obs"], expected["obs"], strict=True):
            np.testing.assert_allclose(seen, expected_obs, atol=1e-4, err_msg=f"frame {number}: obs")
