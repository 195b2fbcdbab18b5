"""Where the server listens and who may talk to it: keys of ``external:`` and options of ``marl serve``."""

from __future__ import annotations

import ipaddress
import re
import socket
from pathlib import Path

from pydantic import Field, PositiveFloat, PositiveInt, field_validator

from marl.config import Config
from marl.errors import ConfigError
from marl.needs import declare, given, needs

DEFAULT_PORT = 9900


class ServerConfig(Config):
    """The network side of a server. What clients may do once they are in is in ``Limits``."""

    host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address to listen on. Any but the own machine (127.0.0.1, ::1, localhost) needs token_file.",
    )
    port: int = Field(DEFAULT_PORT, ge=0, le=65535, description="Port to listen on; 0: the system chooses a free one.")
    token_file: Path | None = Field(
        None,
        description="File with the token that clients have to show. If it is missing it is made, with a random token, "
        "readable for you alone.",
    )
    tls_cert: Path | None = Field(
        None,
        description="File with the certificate (PEM, with the whole chain): the server then speaks https and wss.",
        json_schema_extra=declare(needs(given("tls_key"))),
    )
    tls_key: Path | None = Field(
        None,
        description="File with the private key of the certificate (PEM, without a password).",
        json_schema_extra=declare(needs(given("tls_cert"))),
    )
    origins: tuple[str, ...] = Field(
        (),
        description="Web pages of other servers that may talk to this one, such as https://game.example.org. Pages that "
        "come from the server's own address always may.",
    )
    max_sockets: PositiveInt = Field(2048, description="Connections that may be open at once; further ones get 503.")
    request_timeout_s: PositiveFloat = Field(
        20.0, description="Seconds within which a request has to arrive whole, and a new socket its first message."
    )
    max_unanswered: PositiveInt = Field(
        64, description="Messages of one socket that may wait for their answers; further ones are not read until then."
    )

    @field_validator("origins")
    @classmethod
    def _are_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if not re.fullmatch("https?://[^/]+", origin):
                raise ValueError(
                    f"{origin!r} is no origin; expected a scheme and a host, such as https://example.org:8080"
                )
        return tuple(origin.lower() for origin in origins)

    def address(self) -> tuple[socket.AddressFamily, str]:
        """The family and the number of ``host``."""
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except (OSError, UnicodeError) as error:
            raise ConfigError(
                f"host: {self.host!r} cannot be found ({error}). Give an address of this machine, such as 127.0.0.1."
            ) from error
        family, _, _, _, address = found[0]
        return family, str(address[0])

    def is_loopback(self) -> bool:
        """Whether only programs of this machine can reach the server."""
        _, number = self.address()
        return ipaddress.ip_address(number.partition("%")[0]).is_loopback

    def check(self) -> None:
        """Refuse what would let strangers in, before anything listens."""
        if self.token_file is None and not self.is_loopback():
            raise ConfigError(
                f"host: {self.host} can be reached by other machines, so clients have to show a token: give token_file "
                "(--token-file FILE; a file that is made if it is missing), or listen on 127.0.0.1."
            )
