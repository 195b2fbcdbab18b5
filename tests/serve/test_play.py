"""Trained policies over a real server play as they play without one."""

from __future__ import annotations

import io
import json
import math
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl import Trainer, load_policy
from marl.envs.registry import make_env
from marl.errors import CheckpointError, ConfigError, RunLockedError
from marl.play.write_export import export_checkpoint
from marl.policies.mixture import Mixture
from marl.policies.policy import Inputs
from marl.serve.details import explain
from marl.serve.limits import Limits
from marl.serve.passes import Request
from marl.serve.served import load_served
from tests.serve.players import Driven, PostClient, Refusal, SocketClient, played_alone, server, trained

SMALL: dict[str, Any] = {"model": {"fcnet_hiddens": [16]}, "train_batch_size": 64}
MEMORY: dict[str, Any] = {"model": {"fcnet_hiddens": [16], "use_gru": True, "max_seq_len": 4}, "train_batch_size": 64}
LEVELS = {
    "wrappers": [
        {
            "hierarchy": {
                "features": [0, 1],
                "levels": [
                    {"name": "top_level", "horizon": 4, "goals": {"changes": [[-0.6, 0], [0, 0.6]], "tolerance": 0.1}},
                    {"name": "low_level"},
                ],
            }
        }
    ],
    "multiagent": {"policies": {"top_level": {}, "low_level": {}}, "policy_mapping_fn": "levels"},
    **SMALL,
}
DRIVERS = {
    "multiagent": {
        "policies": {"car1": {}, "car2": {}, "traffic_light": {}},
        "policy_mapping_fn": {"car_*": ["car1", "car2"], "traffic_light_*": "traffic_light"},
    },
    **SMALL,
}
JOINT = {"multiagent": {"groups": {"pair": ["agent_0", "agent_1"]}, "joint": ["pair"]}, **SMALL}
RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "plain": ("ppo", "CartPole-v1", SMALL),
    "memory": ("ppo", "CartPole-v1", MEMORY),
    "come and go, drawn drivers": ("ppo", "traffic", DRIVERS),
    "hierarchy": ("ppo", "windy_maze", LEVELS),
    "masks": ("ppo", "pettingzoo:classic/tictactoe_v3", SMALL),
    "values": ("dqn", "two_step_game", {"model": {"fcnet_hiddens": [16]}}),
    "joint": ("ppo", "two_step_game", JOINT),
    "numbers": ("ppo", "Pendulum-v1", SMALL),
}


@pytest.mark.parametrize("name", RUNS)
def test_interleaved_episodes_are_played_as_without_a_network(name: str, tmp_path: Path) -> None:
    algo, env, config = RUNS[name]
    served = load_served(str(trained(tmp_path / "run", algo, env, **config)))
    with server(served) as running:
        client = SocketClient(running.server.url)
        played = [Driven(client, make_env(env)) for _ in range(3)]
        for _ in range(12):
            for one in played:
                if not one.over:
                    one.step()
        for one in played:
            one.end()
        assert running.hub.counters.lost == running.hub.counters.doubled == 0
        client.close()
    for one in played:
        alone = played_alone(served, make_env(env), one.seed, one.t)
        assert len(alone) == one.t > 0
        close = all(np.allclose(_flat(a), _flat(b), atol=1e-5) for a, b in zip(one.actions, alone, strict=True))
        assert close, f"{one.actions}\n{alone}"
        assert [sorted(step) for step in one.actions] == [sorted(step) for step in alone]


def _flat(actions: dict[str, Any]) -> Any:
    return np.concatenate([np.ravel(actions[agent]) for agent in sorted(actions)]) if actions else np.zeros(0)


def test_a_request_per_message_plays_the_same_as_a_socket(tmp_path: Path) -> None:
    served = load_served(str(trained(tmp_path / "run", "ppo", "CartPole-v1", **SMALL)))
    with server(served) as running:
        poster = PostClient(running.server.url)
        one = Driven(poster, make_env("CartPole-v1")).play(10)
        assert one.ended["length"] == one.t
        assert one.ended["returns"] == {"agent_0": float(one.t)}
    alone = played_alone(served, make_env("CartPole-v1"), one.seed, one.t)
    assert one.actions == alone


def test_hello_tells_who_plays_and_what_they_see(tmp_path: Path) -> None:
    served = load_served(str(trained(tmp_path / "run", "ppo", "traffic", **DRIVERS)))
    with server(served) as running:
        hello = SocketClient(running.server.url).hello
    told = {about["policy"]: about for about in hello["policies"]}
    assert told["car1"]["agents"] == told["car2"]["agents"] == ["car_*"]
    assert told["traffic_light"]["agents"] == ["traffic_light_*"]
    assert told["car1"]["algo"] == "ppo"
    assert "car_*" in hello["agents"]


def test_an_episode_ends_when_its_client_says_so_and_not_at_the_horizon_of_the_run(tmp_path: Path) -> None:
    served = load_served(str(trained(tmp_path / "run", "ppo", "CartPole-v1", horizon=3, **SMALL)))
    with server(served) as running:
        one = Driven(SocketClient(running.server.url), make_env("CartPole-v1")).play(8)
    assert one.t == 8
    assert one.ended["length"] == 8


def test_what_a_client_did_itself_counts_as_a_step_and_the_memory_goes_on(tmp_path: Path) -> None:
    served = load_served(str(trained(tmp_path / "run", "ppo", "CartPole-v1", **MEMORY)))
    with server(served) as running:
        client = SocketClient(running.server.url)
        act = Driven(client, make_env("CartPole-v1"), want=["state"])
        log = client.say("start", session=client.session, episode="own")["episode"]
        report = {"agent_0": {"obs": act.report["agent_0"]["obs"]}}
        told = {"session": client.session, "episode": log, "agents": report}
        answer = client.say("log", **told, t=0, actions={"agent_0": 1})
        assert "actions" not in answer
        for _ in range(2):
            act.report = report
            act.take(client.say("act", **act.message(), **act.want))
        again = client.say("act", **told, t=1, want=["state"])
    assert again["details"]["agent_0"]["state"] == act.answers[1]["details"]["agent_0"]["state"]


# -- exports -----------------------------------------------------------------------------------------------------------


def test_exports_play_their_agents_without_the_run(tmp_path: Path) -> None:
    config = {"multiagent": {"policies": {"one": {}, "two": {}},
                             "policy_mapping_fn": {"agent_0": "one", "agent_1": "two"}}, **SMALL}  # fmt: skip
    run = trained(tmp_path / "run", "ppo", "two_step_game", **config)
    export_checkpoint(run, tmp_path / "files")
    served, whole = load_served(str(tmp_path / "files")), load_served(str(run))
    assert list(served.contract.agents) == ["agent_0", "agent_1"]
    with server(served) as running:
        one = Driven(SocketClient(running.server.url), make_env("two_step_game")).play()
    assert one.actions == played_alone(whole, make_env("two_step_game"), one.seed, one.t)
    alone = load_served(f"{tmp_path / 'files'}#two")
    assert list(alone.contract.agents) == ["agent_1"]


def test_exports_that_do_not_say_whom_they_play_are_refused_where_they_compete(tmp_path: Path) -> None:
    config = {"multiagent": {"policies": {"one": {}, "two": {}},
                             "policy_mapping_fn": {"agent_0": "one", "agent_1": "two"}}, **SMALL}  # fmt: skip
    run = trained(tmp_path / "run", "ppo", "two_step_game", **config)
    for folder in export_checkpoint(run, tmp_path / "files"):
        about = json.loads((folder / "policy.json").read_text())
        del about["plays"], about["seal"]
        about["format"] = 1  # as it was before files were sealed
        (folder / "policy.json").write_text(json.dumps(about))
    with pytest.raises(ConfigError, match=r"one and two may all play 'agent_0'.*#one"):
        load_served(str(tmp_path / "files"))
    assert list(load_served(f"{tmp_path / 'files'}#one").contract.agents) == ["agent_0", "agent_1"]


def test_a_policy_can_be_taken_away_and_acts_the_same_elsewhere(tmp_path: Path) -> None:
    served = load_served(str(trained(tmp_path / "run", "ppo", "CartPole-v1", **SMALL)))
    with server(served) as running:
        url = f"{running.server.url}/v1/policies/default_policy/weights"
        with urllib.request.urlopen(url, timeout=30) as answer:
            content = answer.read()
        one = Driven(SocketClient(running.server.url), make_env("CartPole-v1")).play(5)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(tmp_path / "taken")
    actor, env = load_policy(tmp_path / "taken"), make_env("CartPole-v1")
    obs, _ = env.reset(seed=one.seed)
    for answered in one.actions:
        action = actor.compute_action(obs["agent_0"])
        assert action == answered["agent_0"]
        obs = env.step({"agent_0": action}).obs


# -- details -----------------------------------------------------------------------------------------------------------


WANT = ["probabilities", "value", "state"]


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_details_are_those_of_the_policy(algo: str, tmp_path: Path) -> None:
    model = {"fcnet_hiddens": [16], "vf_share_layers": True} if algo == "ppo" else {"fcnet_hiddens": [16]}
    served = load_served(str(trained(tmp_path / "run", algo, "CartPole-v1", model=model)))
    policy: Any = served.policies["default_policy"]
    env = make_env("CartPole-v1")
    with server(served) as running:
        client = SocketClient(running.server.url)
        one = Driven(client, env, want=WANT)
        row = {"obs": np.array([one.report["agent_0"]["obs"]], np.float32)}
        one.step()
        quiet = Driven(client, make_env("CartPole-v1"))
        quiet.step()
    details = one.answers[0]["details"]["agent_0"]
    if algo == "ppo":
        expected = policy.action_distribution(row).params.softmax(1)[0].tolist()
        value = float(policy.value_function(row)[0])
    else:
        best = int(policy.q_values(row)[0].argmax())
        expected, value = [float(action == best) for action in range(2)], float(policy.q_values(row).max())
    assert details["probabilities"] == pytest.approx(expected, abs=1e-5)
    assert details["value"] == pytest.approx(value, abs=1e-5)
    assert details["state"] == []
    assert "details" not in quiet.answers[0]


@pytest.mark.parametrize(("algo", "told"), [("softq", True), ("noisy_dqn", False)])
def test_chances_of_exploring_values_are_told_where_there_are_any(algo: str, told: bool, tmp_path: Path) -> None:
    served = load_served(str(trained(tmp_path / "run", algo, "CartPole-v1", model={"fcnet_hiddens": [16]})))
    policy: Any = served.policies["default_policy"]
    obs = np.array([[0.01, 0.02, 0.03, 0.04]], np.float32)
    inputs = Inputs(obs, np.ones((1, 0), bool), np.zeros(1, np.int64))
    carry = np.zeros((1, 0), np.float32)
    decision = policy.act(inputs, carry, np.random.default_rng(0), explore=True)
    request = Request(inputs, carry, explore=True, wanted=frozenset({"probabilities"}), decision=decision)
    (found,) = explain(policy, request)
    if told:
        odds = np.exp(policy.q_values({"obs": obs})[0].numpy() / 0.2)
        assert found["probabilities"] == pytest.approx((odds / odds.sum()).tolist(), rel=1e-4)
        assert math.exp(found["logp"]) == pytest.approx(found["probabilities"][int(decision.actions[0])], rel=1e-4)
    else:
        assert found["probabilities"] is None


def test_the_state_of_a_policy_with_a_memory_is_told_after_its_decision(tmp_path: Path) -> None:
    served = load_served(str(trained(tmp_path / "run", "ppo", "CartPole-v1", **MEMORY)))
    with server(served) as running:
        one = Driven(SocketClient(running.server.url), make_env("CartPole-v1"), want=["state"]).play(3)
    states = [answer["details"]["agent_0"]["state"] for answer in one.answers]
    assert len(states[0]) == served.policies["default_policy"].carry_size
    assert states[0] != states[1]
    assert any(states[0])


# -- populations -------------------------------------------------------------------------------------------------------


def league(folder: Path) -> Path:
    """Rock-paper-scissors: three members, of which two are played half of the time each."""
    config = {
        "env_config": {"game": "rock_paper_scissors"},
        "population": {"kind": "self_play", "round_timesteps": 64},
        "train_batch_size": 64,
        "model": {"fcnet_hiddens": [4]},
        "seed": 1,
        "evaluation": {"interval": 0},
    }
    with Trainer("ppo", env="matrix_game", config=config) as trainer:
        for _ in range(3):
            trainer.train()
        trainer.save(folder)
    return folder


def test_a_population_draws_a_member_for_each_episode_and_names_it(tmp_path: Path) -> None:
    served = load_served(str(league(tmp_path / "league")))
    assert list(served.policies) == ["player_0.answer", "player_1.answer"]
    for mixture in served.policies.values():
        assert isinstance(mixture, Mixture)
        chances = np.zeros(len(mixture))
        chances[0] = chances[2] = 0.5
        mixture.set_chances(chances)
    drawn: dict[str, int] = {}
    with server(served, seed=0) as running:
        client = SocketClient(running.server.url)
        for _ in range(40):
            one = Driven(client, make_env("matrix_game", {"game": "rock_paper_scissors"})).play()
            for agent, about in one.answers[0]["details"].items():
                assert about["member"].startswith(agent)
                drawn[about["member"]] = drawn.get(about["member"], 0) + 1
    assert set(drawn) == {"player_0_0", "player_0_2", "player_1_0", "player_1_2"}
    assert sum(drawn.values()) == 80
    assert min(drawn.values()) > 8


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_a_failure_in_one_episode_is_told_to_its_client_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = load_served(str(trained(tmp_path / "run", "ppo", "CartPole-v1", **SMALL)))
    policy = served.policies["default_policy"]
    act = policy.act

    def picky(inputs: Any, carry: Any, rng: Any, *, explore: bool) -> Any:
        if (inputs.obs[:, 0] > 4).any():
            raise ValueError("too far to the right")
        return act(inputs, carry, rng, explore=explore)

    monkeypatch.setattr(policy, "act", picky)
    with server(served) as running:
        client = SocketClient(running.server.url)
        bad, good = (client.say("start", session=client.session, episode=name) for name in ("bad", "good"))
        say: Callable[[dict[str, Any], int, float], dict[str, Any]] = lambda episode, t, x: client.say(  # noqa: E731
            "act", session=client.session, episode=episode["episode"], t=t, agents={"agent_0": {"obs": [x, 0, 0, 0]}}
        )
        say(good, 0, 0.0)
        with pytest.raises(Refusal, match="too far to the right") as refused:
            say(bad, 0, 4.5)
        assert refused.value.told["code"] == "episode_failed"
        assert "agent_0" in say(good, 1, 0.0)["actions"]
        with pytest.raises(Refusal, match="over"):
            say(bad, 1, 0.0)
        with urllib.request.urlopen(f"{running.server.url}/v1/healthz", timeout=30) as answer:
            assert json.load(answer)["status"] == "ok"


def test_a_loop_that_dies_is_never_silent(tmp_path: Path) -> None:
    served = load_served(str(trained(tmp_path / "run", "ppo", "CartPole-v1", **SMALL)))
    with server(served) as running:
        client = SocketClient(running.server.url)
        client.say("start", session=client.session, episode="e")

        def broken() -> None:
            raise MemoryError("nothing is left")

        running.stage.loop.call(broken)
        with pytest.raises(Refusal, match="MemoryError: nothing is left"):
            client.say("act", session=client.session, episode="e", t=0, agents={"agent_0": {"obs": [0, 0, 0, 0]}})
        assert running.server.failed.wait(10)
        with pytest.raises(urllib.error.HTTPError) as unwell:
            urllib.request.urlopen(f"{running.server.url}/v1/healthz", timeout=30)
        assert json.load(unwell.value)["status"] == "failed"


def test_more_episodes_than_the_limit_are_refused_with_a_time_to_come_again(tmp_path: Path) -> None:
    served = load_served(str(trained(tmp_path / "run", "ppo", "CartPole-v1", **SMALL)))
    with server(served, Limits(max_episodes=2)) as running:
        client = SocketClient(running.server.url)
        for name in "ab":
            client.say("start", session=client.session, episode=name)
        with pytest.raises(Refusal) as refused:
            client.say("start", session=client.session, episode="c")
        assert refused.value.told["code"] == "too_many"
        client.say("end", session=client.session, episode="a", t=0)
        assert client.say("start", session=client.session, episode="c")["episode"] == "c"


def test_paths_that_hold_nothing_to_serve_are_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not exist"):
        load_served(str(tmp_path / "nowhere"))
    with pytest.raises(CheckpointError):
        load_served(str(tmp_path))


@pytest.mark.parametrize("explore", [False, True], ids=["greedy", "drawn"])
def test_with_a_journal_open_episodes_go_on_after_a_restart(explore: bool, tmp_path: Path) -> None:
    served = load_served(str(trained(tmp_path / "run", "ppo", "CartPole-v1", **MEMORY)))
    first, env = server(served, explore=explore, journal=tmp_path / "journal"), make_env("CartPole-v1")
    with first as running:
        client = SocketClient(running.server.url)
        Driven(client, make_env("CartPole-v1")).play(3)  # one that is over before
        one = Driven(client, env, want=["state"])
        for _ in range(4):
            one.step()
    # What the first server knew is gone; the second one has the journal alone.
    with server(served, explore=explore, journal=tmp_path / "journal") as running:
        again = SocketClient(running.server.url, session=client.session)
        (open_episode,) = again.hello["open"]
        assert open_episode["seed"] == one.seed
        assert open_episode["actions"] == one.actions
        one.client = again
        one.step()
        assert running.hub.counters.replayed == 4
        assert running.hub.counters.doubled == running.hub.counters.lost == 0
        if not explore:  # its memory is what it would be without the restart
            assert one.actions == played_alone(served, make_env("CartPole-v1"), one.seed, 5)
        one.end()
    with server(served, journal=tmp_path / "journal") as running:
        assert not SocketClient(running.server.url, session=client.session).hello["open"]
    assert len(list((tmp_path / "journal").iterdir())) == 1  # what nobody needs any more is gone


def test_two_servers_cannot_write_into_one_journal(tmp_path: Path) -> None:
    served = load_served(str(trained(tmp_path / "run", "ppo", "CartPole-v1")))
    with server(served, journal=tmp_path / "journal") as first:
        client = SocketClient(first.server.url)
        one = Driven(client, make_env("CartPole-v1"))
        one.step()
        with pytest.raises(RunLockedError, match="journal of a server that runs already"):
            server(served, journal=tmp_path / "journal").start()
        one.step()  # the first one has not noticed
    with server(served, journal=tmp_path / "journal") as again:
        assert SocketClient(again.server.url, session=client.session).hello["open"]
