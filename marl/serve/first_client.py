"""Where a scenario does not say who plays its external env, the first client does: the run waits for its hello."""

from __future__ import annotations

import sys
from dataclasses import replace
from threading import Event
from typing import Any

from marl.envs.external.contract import Contract
from marl.scenario.config import Scenario
from marl.scenario.external import check_external
from marl.scenario.resolve import Setup, resolve
from marl.serve.fit import contract_json
from marl.serve.open_episode import OpenEpisode
from marl.serve.service import Service
from marl.serve.thread_line import NOT_HERE


class FirstClient:
    """The stage of a server whose run has not been built yet. Episodes that clients begin wait for it."""

    training, version, no_log = True, 0, ""
    own_needs: tuple[str, ...] = ()
    own_why = ""

    def __init__(self, lock_step: bool) -> None:
        self.contract: Contract | None = None
        self.lock_step = lock_step
        self.no_play = NOT_HERE if lock_step else ""  # the run would refuse it as well, too late for its client
        self.heard = Event()

    def agree(self, contract: Contract) -> None:
        self.contract = contract
        self.heard.set()

    def policies(self) -> list[dict[str, Any]]:
        return []  # they are built for what the first client has said

    def begin(self, episode: OpenEpisode) -> None:
        """It waits in the hub until there is a player."""

    def arrived(self, episode: OpenEpisode) -> None:
        """Nobody has answered a start, so nobody can have sent a step."""


def resolve_with_first_client(scenario: Scenario) -> Setup:
    """Listen, wait for the first hello, and resolve the scenario with the agents that it names; the server goes on."""
    check_external(scenario)  # before anybody is waited for
    stage = FirstClient(scenario.external_keys.lock_step)
    service = Service(scenario.external_keys, stage)
    service.note = _tell
    service.start()
    _tell("waiting for the first client, which says who plays")
    try:
        stage.heard.wait()  # in the main thread, so Ctrl-C ends it
        assert stage.contract is not None
        agents, state_size = contract_json(stage.contract), stage.contract.state_size
        known = scenario.model_copy(update={"env_config": {"agents": agents, "state_size": state_size}})
        return replace(resolve(known), server=service)
    except BaseException:
        service.stop("the run could not begin")
        raise


def _tell(text: str) -> None:
    # No display runs yet, and results may be read from standard output.
    print(text, file=sys.stderr, flush=True)
