"""Where the server listens and who may talk to it; the keys stand where scenarios can name them."""

from marl.envs.external.server_config import DEFAULT_PORT, ServerConfig

__all__ = ["DEFAULT_PORT", "ServerConfig"]
