"""``marl client`` and ``marl drive``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from marl.cli.clients import FILES
from marl.envs.registry import make_env
from tests.command import marl
from tests.serve.drawn import drawing_server, played_here
from tests.serve.instant import serving


@pytest.mark.parametrize(("language", "name"), [("python", "marl_client.py"), ("js", "marl_client.js")])
def test_a_client_is_written_and_never_written_over_by_mistake(language: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / name
    done = marl("client", language, path.parent)
    assert (done.code, done.out.splitlines()) == (
        0,
        [f"wrote {path}. The documentation's page on the wire format describes its messages."],
    )
    assert path.read_bytes() == next(source for source, called in FILES.values() if called == name).read_bytes()
    path.write_text("mine")
    again = marl("client", language, path.parent)
    assert (again.code, path.read_text()) == (2, "mine")
    assert "--force" in again.errors[0]
    assert marl("client", language, path.parent, "--force").code == 0
    assert path.read_text() != "mine"


def test_an_unknown_language_is_told() -> None:
    assert marl("client", "cobol", "x").code == 2


def test_an_env_is_driven_by_the_command() -> None:
    _, hub = drawing_server()
    with serving(hub) as server:
        done = marl("drive", "CartPole-v1", server.url, "--episodes", 2, "--json")
        told = json.loads(done.out)
        assert (done.code, told["episodes"], told["why"]) == (0, 2, "all episodes are played")
        assert told["returns"] == [played_here(make_env("CartPole-v1"), seed) for seed in (100, 101)]
        plain = marl("drive", "CartPole-v1", server.url, "--episodes", 1, "--name", "robot", "--no-training")
        assert plain.out.startswith("1 episodes, ")
        refused = marl("drive", "Pendulum-v1", server.url, "--episodes", 1)
    assert refused.code == 2
    assert "observation_space" in refused.errors[0]


def test_a_server_that_is_not_there_is_a_sentence_and_not_a_traceback(tmp_path: Path) -> None:
    done = marl("drive", "CartPole-v1", "http://127.0.0.1:9", "--patience", 0)
    assert (done.code, len(done.err.splitlines())) == (2, 2)  # what it does, and why it cannot
    assert "does not answer" in done.errors[0]


def test_a_token_is_read_from_its_file(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t" * 32 + "\n")
    token.chmod(0o600)
    _, hub = drawing_server()
    with serving(hub, token_file=token) as server:
        assert marl("drive", "CartPole-v1", server.url, "--episodes", 1).code == 2
        assert marl("drive", "CartPole-v1", server.url, "--episodes", 1, "--token-file", token).code == 0
