"""The stage of a run whose clients play on while it learns: an acting loop with copies of the policies."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marl.data.task import Array, PolicyID
from marl.envs.external.contract import Contract
from marl.play.write_export import export_policies
from marl.policies.build import build_policies, weights_of
from marl.policies.policy import Policy
from marl.scenario.resolve import Setup
from marl.serve.acting import ActingLoop
from marl.serve.open_episode import OpenEpisode
from marl.serve.own_actions import OwnActions
from marl.serve.served import zip_of

Weights = Mapping[PolicyID, Mapping[str, Array]]


class FreeStage:
    """Hands episodes to the loop. The learners' weights come in as versions; the loop has its own copies of the policies."""

    training, lock_step, no_play = True, False, ""

    def __init__(
        self, setup: Setup, policies: Mapping[PolicyID, Policy], told: list[dict[str, Any]], own: OwnActions
    ) -> None:
        self.contract: Contract | None = Contract.of(setup.rollout.env_config)
        self.no_log, self.own_needs, self.own_why = own.refused, own.needed, own.why
        self._setup, self._told = setup, told
        # Copies, because the learners write into theirs while the loop acts.
        copies = build_policies(setup.policies, setup.task.kinds)
        self.version = 0
        self._newest: tuple[int, Weights] = (0, weights_of(policies))
        for name, policy in copies.items():
            policy.set_weights(dict(self.weights[name]))
        scenario = setup.scenario
        self.loop = ActingLoop(
            copies,
            max_wait_ms=scenario.external_keys.max_wait_ms,
            seed=scenario.seed,
            torch_threads=scenario.torch_threads,
        )

    @property
    def weights(self) -> Weights:
        return self._newest[1]

    def renew(self, version: int, weights: Weights) -> None:
        """Act with these weights from now on."""
        self.version, self._newest = version, (version, weights)
        self.loop.set_weights(version, weights)

    # -- called by the hub and the server, in the network's thread -----------------------------------------------------

    def agree(self, contract: Contract) -> None:
        """Nothing is left to be agreed on."""

    def policies(self) -> list[dict[str, Any]]:
        return self._told

    def begin(self, episode: OpenEpisode) -> None:
        self.loop.offer(episode)

    def arrived(self, episode: OpenEpisode) -> None:
        self.loop.arrived(episode)

    def export(self, name: PolicyID) -> tuple[int, bytes] | None:
        """The newest weights of a policy as a zip of its files, for clients that act by themselves."""
        version, weights = self._newest  # one tuple, so that a change in between does not part them
        if name not in weights:
            return None
        with tempfile.TemporaryDirectory() as folder:
            (made,) = export_policies(Path(folder), self._setup, {name: weights[name]}, [name])
            return version, zip_of(made)
