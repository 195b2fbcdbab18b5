"""Tokens are made for their owner alone and compared in one way."""

from __future__ import annotations

import hmac
import os
import stat
import threading
from pathlib import Path

import pytest

from marl.errors import ConfigError
from marl.serve import tokens
from marl.serve.tokens import Token, bearer, token_of_file


def test_a_missing_file_is_made_with_256_random_bits_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "token"
    old = os.umask(0)  # nothing but the mode itself keeps others out
    try:
        token = token_of_file(path)
    finally:
        os.umask(old)
    assert len(token) == 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token_of_file(path) == token
    assert os.listdir(path.parent) == ["token"]


def test_a_token_file_is_never_open_to_others_not_even_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    real = os.open

    def watched(path: str, flags: int, mode: int = 0o777, **more: int) -> int:
        if flags & os.O_CREAT:
            assert flags & os.O_EXCL
            seen.append(mode)
        return real(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", watched)
    token_of_file(tmp_path / "token")
    assert seen == [0o600]


def test_servers_that_start_at_once_agree_on_one_token(tmp_path: Path) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(token_of_file(tmp_path / "token"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


@pytest.mark.parametrize("content", [b"", b"short", b"two words of a secret", b"\xff" * 40, b"x" * 5000])
def test_a_file_without_a_token_is_refused_and_not_shown(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="holds no token") as told:
        token_of_file(path)
    assert "secret" not in str(told.value)


def test_a_token_that_others_can_read_is_used_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "token"
    path.write_text("0123456789abcdef\n")
    path.chmod(0o644)
    assert token_of_file(path) == "0123456789abcdef"
    assert "chmod 600" in caplog.text


def test_right_wrong_and_missing_tokens_are_compared_by_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def counted(one: bytes, other: bytes) -> bool:
        lengths.append((len(one), len(other)))
        return real(one, other)

    monkeypatch.setattr(tokens.hmac, "compare_digest", counted)
    token = Token("0123456789abcdef")
    shown = ["0123456789abcdef", "0123456789abcdeg", "x", "", None, 3, ["list"], "\ud800", "x" * 100_000]
    assert [token.fits(one) for one in shown] == [True] + [False] * 8
    assert lengths == [(32, 32)] * 9
    assert token.compared == 9


def test_where_no_token_is_needed_everybody_is_let_in_by_the_same_steps() -> None:
    token = Token()
    assert token.fits(None)
    assert token.fits("anything")
    assert token.compared == 2


def test_the_token_is_the_rest_of_a_bearer_header() -> None:
    assert bearer("Bearer abc") == "abc"
    assert bearer("bearer  abc ") == "abc"
    assert bearer("Basic abc") is None
    assert bearer(None) is None
