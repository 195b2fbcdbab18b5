"""The JavaScript client, in Node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from marl.cli.clients import FILES, Language
from marl.envs.external.contract import Contract, ExternalAgent
from tests.serve.cutting import cutting
from tests.serve.drawn import drawing_server
from tests.serve.instant import BOX, TWO, serving, small_contract

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")

PLAY = """
import { PolicyClient, PolicyClientError } from "./marl_client.js";
const [url, transport, token] = process.argv.slice(2);
const client = new PolicyClient(url, { transport, token: token ?? null, patience: 60 });
const obs = new Float32Array([0.5, -0.25, 0, 1]);
for (let i = 0; i < 3; i++) {
  const episode = await client.startEpisode();
  for (let t = 0; t < 8; t++) {
    const action = await client.getAction(episode, obs);
    if (action !== 0 && action !== 1) throw new Error(`action ${action}`);
    client.logReturns(episode, t, { t });
  }
  await client.logAction(episode, obs, 1);
  client.logReturns(episode, 0.5);
  console.log(JSON.stringify(await client.endEpisode(episode, obs)));
}
try {
  await client.act({ episode: "nobody", t: 0, agents: {} });
} catch (error) {
  console.log(error instanceof PolicyClientError, error.code);
}
client.close();
"""

TEAM = """
import { PolicyClient } from "./marl_client.js";
const client = new PolicyClient(process.argv[2]);
const obs = [0.5, -0.25, 0, 1];
const episode = await client.startEpisode("mine", false);
console.log(Object.keys(await client.getAction(episode, { a: obs, car_1: obs })).join());
client.logReturns(episode, { a: 1 }, { a: { x: 1 } }, { car_1: true });
console.log(Object.keys(await client.getAction(episode, { a: obs })).join());
console.log(JSON.stringify(await client.endEpisode(episode, { a: obs }, true)));
client.close();
"""


def node(folder: Path, script: str, *given: str) -> list[str]:
    assert NODE is not None
    source, name = FILES[Language.js]
    (folder / name).write_bytes(source.read_bytes())
    (folder / "play.mjs").write_text(script)
    (folder / "package.json").write_text('{"type": "module"}')
    # Node 20 has WebSocket behind an option; from 22 on it is always there.
    command = [NODE, "--experimental-websocket", str(folder / "play.mjs"), *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize("transport", ["ws", "http"])
def test_node_plays_over_a_network_that_cuts_connections(transport: str, tmp_path: Path) -> None:
    stage, hub = drawing_server(Contract({"agent_0": ExternalAgent(observation_space=BOX, action_space=TWO)}))
    with serving(hub) as server, cutting(server.url, every=9) as (url, cuts):
        lines = node(tmp_path, PLAY, url, transport)
    assert lines == ['{"agent_0":28.5}'] * 3 + ["true unknown_episode"]
    assert cuts() > 3
    assert len(stage.seen) == 3 * 10
    assert (hub.counters.begun, hub.counters.ended, hub.counters.sessions) == (3, 3, 1)
    assert stage.seen[8].own["agent_0"].action == 1
    assert [step.agents["agent_0"].terminated for step in stage.seen[:10]] == [False] * 9 + [True]


@needs_node
def test_node_plays_several_agents_and_shows_a_token(tmp_path: Path) -> None:
    stage, hub = drawing_server(small_contract())
    with serving(hub) as server:
        lines = node(tmp_path, TEAM, server.url)
    assert lines == ["a,car_1", "a", '{"a":1,"car_1":0}'] or lines == ["a,car_1", "a", '{"a":1.0,"car_1":0.0}']
    assert (stage.seen[1].agents["car_1"].terminated, stage.seen[1].agents["a"].info) == (True, {"x": 1})
    assert not stage.seen[2].agents["a"].terminated


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize("transport", ["ws", "http"])
def test_node_is_let_in_by_its_token(transport: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t" * 32)
    token.chmod(0o600)
    _, hub = drawing_server(Contract({"agent_0": ExternalAgent(observation_space=BOX, action_space=TWO)}))
    with serving(hub, token_file=token) as server:
        assert len(node(tmp_path, PLAY, server.url, transport, "t" * 32)) == 4
