"""Local inference: a client's own copies of the server's policies, which are replaced by newer ones while it plays.

A policy comes as its export (``policy.json`` and safetensors, no code), so what is downloaded can only be what marl itself
builds. What was done is sent with its log probability and the version of the weights, so that learners can judge it.
"""

from __future__ import annotations

import io
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import quote

from marl.client import PolicyClient, PolicyClientError, plain, read_answer
from marl.play.actor import Actor
from marl.play.export import ABOUT, WEIGHTS, load_policy

KEPT_EPISODES = (
    1_000  # of which memories are kept; episodes that are never ended must not fill the memory of the machine
)


class LocalPolicies:
    """What a client with ``inference_mode="local"`` asks instead of the server."""

    def __init__(self, client: PolicyClient, update_interval: float) -> None:
        self.client, self.update_interval = client, update_interval
        self.actors: dict[str, Actor] = {}
        self.versions: dict[str, int] = {}
        self.looked = 0.0  # when newer weights were last asked for
        self.memories: dict[str, dict[str, Any]] = {}  # episode -> agent -> what its policy remembers

    def choose(
        self, episode: str, seen: Mapping[str, Any], earned: Mapping[str, Mapping[str, Any]] | None = None
    ) -> dict[str, Any]:
        """Actions for these observations, as the message ``log`` takes them: ``actions``, ``logp`` and ``version``."""
        about = self.client.hello()
        names = {agent: policy_of(agent, about["policies"]) for agent in seen}
        self._update(set(names.values()))
        memory = self._memory_of(episode)
        chosen: dict[str, Any] = {"actions": {}, "logp": {}, "version": min(self.versions.values())}
        for agent, observation in seen.items():
            paid = (earned or {}).get(agent, {}).get("reward", 0.0)
            actor = self.actors[names[agent]]
            # Greedy actions teach nothing: where the server learns, they are drawn as its own would be.
            found = actor.compute_action(
                observation,
                memory.get(agent),
                agent=agent,
                prev_reward=paid,
                full_fetch=True,
                explore=about["training"],
            )
            action, memory[agent], extras = found
            chosen["actions"][agent] = plain(action)
            chosen["logp"][agent] = extras["action_logp"]
        return chosen

    def _memory_of(self, episode: str) -> dict[str, Any]:
        while len(self.memories) >= KEPT_EPISODES:
            self.memories.pop(next(iter(self.memories)))
        return self.memories.setdefault(episode, {})

    def _update(self, names: set[str]) -> None:
        """Download policies that are missing, and now and then newer weights of all."""
        missing = names - self.actors.keys()
        if time.monotonic() - self.looked > self.update_interval:
            self.looked = time.monotonic()
            missing |= self.actors.keys()
        for name in sorted(missing):
            found = self._download(name)
            if found is not None:
                self.versions[name], self.actors[name] = found

    def _download(self, name: str) -> tuple[int, Actor] | None:
        """The version and the policy; None where there is nothing newer."""
        newer = f"?newer_than={self.versions[name]}" if name in self.versions else ""
        place = self.client.place
        scheme = "http" if self.client.tls is None else "https"
        url = f"{scheme}://{place.netloc}{place.path.rstrip('/')}/v1/policies/{quote(name, safe='')}/weights{newer}"
        request = urllib.request.Request(url, headers=self.client.headers)
        try:
            with urllib.request.urlopen(request, timeout=self.client.timeout, context=self.client.tls) as answer:
                version, content = answer.headers.get("ETag", '"0"'), answer.read()
        except urllib.error.HTTPError as error:
            read_answer(error.code, error.read())
            raise
        except OSError as error:
            if name in self.actors:  # what we have is good enough until the server is back
                return None
            raise PolicyClientError("unreachable", f"{place.netloc} does not answer ({error}).") from error
        if answer.status != 200:
            return None
        return int(version.strip('W/"')), unpack(content)


def unpack(content: bytes) -> Actor:
    """The policy in the zip that a server gave. Only the two files of an export are looked at, whatever else is in it."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(io.BytesIO(content)) as packed:
        for name in (ABOUT, WEIGHTS):
            (Path(folder) / name).write_bytes(packed.read(name))
        return load_policy(folder)


def policy_of(agent: str, policies: list[dict[str, Any]]) -> str:
    """Which policy plays an agent, as far as the server's list tells."""
    fitting = [one["policy"] for one in policies if any(fnmatchcase(agent, name) for name in one.get("agents", []))]
    if len(policies) == 1:
        fitting = [policies[0]["policy"]]
    if len(fitting) != 1:
        raise PolicyClientError(
            "misuse",
            f"which policy plays agent {agent!r} is decided by the server (its list fits {len(fitting)} policies), so it "
            "cannot be played by local inference. Use inference_mode='remote'.",
        )
    return str(fitting[0])
