"""Keys of ``external:``: how a run learns from clients, and its server."""

from __future__ import annotations

from pydantic import Field

from marl.envs.external.limits import Limits
from marl.envs.external.server_config import ServerConfig


class ExternalTraining(ServerConfig, Limits):
    """How clients play a run's env, and the server to which they talk."""

    lock_step: bool = Field(
        False,
        description="true: every episode waits with its next action until all copies have reported and the update is done, so "
        "the run equals one in this process, bit for bit. false: clients play on while learners learn.",
    )
