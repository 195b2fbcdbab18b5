"""The secret that clients show: made, kept in a file that its owner alone can read, and compared without telling by time."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from marl.errors import ConfigError
from marl.storage import make_folder, storing

_log = logging.getLogger(__name__)

SHORTEST = 16  # characters of a token that somebody chose; ours have 43, which are 256 random bits
LONGEST = 4096


class Token:
    """What a client's token is compared with. Without a secret everybody is let in, by the same steps."""

    def __init__(self, secret: str | None = None) -> None:
        self.needed = secret is not None
        # The comparison is of digests: they are equally long whatever a client sends, so time tells nothing of the secret.
        self._digest = _digest(secrets.token_urlsafe() if secret is None else secret)
        self.compared = 0

    def fits(self, given: object) -> bool:
        """Whether this is the token; what is missing or no text is compared as well, as an empty one."""
        shown = given if isinstance(given, str) else ""
        same = hmac.compare_digest(_digest(shown), self._digest)
        self.compared += 1
        return same or not self.needed


def _digest(text: str) -> bytes:
    # JSON may hold halves of characters, which plain UTF-8 refuses.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def bearer(authorization: str | None) -> str | None:
    """The token of an ``Authorization: Bearer T`` header."""
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    return token.strip()


def token_of_file(path: Path) -> str:
    """The token in the file, which is made with a new one if it is missing."""
    try:
        return _read(path)
    except FileNotFoundError:
        _make(path)
        return _read(path)


def _read(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(LONGEST + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(
            f"token_file: {path} cannot be read ({error.strerror}). Give a file that you may read."
        ) from error
    if os.name == "posix" and mode & (stat.S_IRGRP | stat.S_IROTH):
        _log.warning("the token in %s can be read by others on this machine; `chmod 600` it.", path)
    return _checked(content, path)


def _checked(content: bytes, path: Path) -> str:
    # An error must not show the content: it may be a secret all the same.
    try:
        token = content.decode("ascii").strip()
    except UnicodeDecodeError:
        token = ""
    fits = SHORTEST <= len(token) < LONGEST and token.isprintable() and " " not in token
    if not fits:
        raise ConfigError(
            f"token_file: {path} holds no token; expected one line of {SHORTEST} to {LONGEST} visible ASCII characters. "
            "Remove the file, and a new token is made."
        )
    return token


def _make(path: Path) -> None:
    """A new token, in a file that nobody else could read at any moment; a file that is there by now stays."""
    make_folder(path.absolute().parent)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with storing(path):
        # 0600 from the first moment, and a new name: nobody has it open already, and no link leads elsewhere.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            with open(descriptor, "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
                file.flush()
                os.fsync(file.fileno())
            # A link fails where the name is taken: of two servers that start at once, both use the first one's token.
            with suppress(FileExistsError):
                os.link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
