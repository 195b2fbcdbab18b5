"""Exactly once: faults of the network, clients and servers that are killed change no weight."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serve.faults import Ordeal


@pytest.mark.slow
def test_faults_and_deaths_of_clients_and_the_server_change_no_weight_and_no_result(tmp_path: Path) -> None:
    ordeal = Ordeal(tmp_path, iterations=4, chance=0.3)
    ordeal.go(server_kills=1, client_kills=1, patience_s=300.0)
    happened = ordeal.judge()
    assert min(happened["faults"].values()) > 10
    assert happened["killed"] == {"server": 1, "client": 1}
