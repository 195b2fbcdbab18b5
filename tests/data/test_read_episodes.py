"""Recorded episodes are read back one by one, as long as they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marl.errors import DataError
from marl.offline.trajectories import read_episodes


def test_a_file_of_several_episodes_is_cut_where_they_end(tmp_path: Path) -> None:
    file = tmp_path / "some.npz"
    np.savez(file, lengths=np.array([2, 1, 3]), rewards=np.arange(6.0), obs=np.arange(12).reshape(6, 2))
    found = read_episodes(file)
    assert [rows["rewards"].tolist() for rows in found] == [[0, 1], [2], [3, 4, 5]]
    assert [rows["obs"].tolist() for rows in found] == [[[0, 1], [2, 3]], [[4, 5]], [[6, 7], [8, 9], [10, 11]]]
    assert all("lengths" not in rows for rows in found)
    np.savez(file, lengths=np.array([2, 1]), rewards=np.arange(4.0))
    with pytest.raises(DataError, match=r"column 'rewards' has shape \(4,\), expected 3 rows"):
        read_episodes(file)
