"""The page of the two-step game: its true values, what learners believe, and the demo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from marl import Trainer
from marl.errors import ConfigError
from marl.scenario.load import load_scenario
from marl.watch.api.explain import readable_runs
from marl.watch.command import WatchOptions, _desk
from marl.watch.demo_notes import ABOUT, NOTES, POINT, read_notes
from marl.watch.demo_runs import command, demo_scenario, shown_keys
from marl.watch.joint_values import beliefs, check_readable, mixers
from marl.watch.server import WatchServer
from marl.watch.tasks import explain
from marl.watch.two_step_truth import best_return, greedy_return, true_values
from tests.watch.asking import client_of, done
from tests.watch.browser import complaints, show, text_of, wait_for, wait_until, watched
from tests.watch.javascript import RunJs, run_js

__all__ = ["run_js"]

TEAM = {"groups": {"team": ["agent_0", "agent_1"]}}
SMALL = {"fcnet_hiddens": [8], "fcnet_activation": "relu", "evaluation": {"interval": 0}, "multiagent": TEAM}


def learned(algo: str, **keys: Any) -> Trainer:
    return Trainer(algo, env="two_step_game", config={**SMALL, **keys})


# -- what is true ------------------------------------------------------------------------------------------------------


def test_backward_induction_gives_the_values_of_the_paper() -> None:
    truth = true_values({}, gamma=0.99)
    assert truth["safe"] == [[7, 7], [7, 7]]
    assert truth["risky"] == [[0, 1], [1, 8]]
    assert truth["first"] == [[pytest.approx(0.99 * 7)] * 2, [pytest.approx(0.99 * 8)] * 2]


def test_the_true_values_follow_the_payoffs_of_the_env() -> None:
    other = {"safe_payoff": [[8, 9], [9, 10]], "risky_payoff": [[0, 0], [5, -12]]}
    assert true_values(other, gamma=0.5)["first"] == [[5.0, 5.0], [2.5, 2.5]]
    assert best_return(other) == 10.0
    assert greedy_return(other, {"first": [1, 0], "safe": [0, 0], "risky": [1, 1]}) == -12.0


# -- what is believed --------------------------------------------------------------------------------------------------


def by_hand(weights: dict[str, Any], mixer: dict[str, Any], state: int) -> Any:
    """Q_tot of all pairs, from the weights alone: observations, one hidden layer, and the mixer's equation of the paper."""
    own = []
    for agent in (0, 1):
        options = [
            *np.eye(2)[[int(state == s) for s in range(3)]].reshape(-1),
            *np.eye(3)[agent + 1],
            *np.eye(2)[agent],
        ]
        hidden = np.maximum(0, weights["model.network.weights.0"] @ options + weights["model.network.biases.0"])
        own.append(weights["model.network.weights.1"] @ hidden + weights["model.network.biases.1"])
    assert weights["unit"] == mixer["unit"] != 1.0  # both count in the same one, which is given back at the end
    deviation = np.maximum(np.sqrt(mixer["filter.squares"] / mixer["filter.count"]), 1e-4)
    s = np.clip((np.eye(3)[state] - mixer["filter.mean"]) / deviation, -10, 10)
    layer = {name: mixer[f"{name}.weight"] @ s + mixer[f"{name}.bias"] for name in ("b1", "v_hidden")}
    for name in ("w1", "w2"):
        hidden = np.maximum(0, mixer[f"{name}.0.weight"] @ s + mixer[f"{name}.0.bias"])
        layer[name] = mixer[f"{name}.2.weight"] @ hidden + mixer[f"{name}.2.bias"]
    offset = (mixer["v.weight"] @ np.maximum(0, layer["v_hidden"]) + mixer["v.bias"])[0]
    table = np.zeros((2, 2))
    for a, b in np.ndindex(2, 2):
        z = np.array([own[0][a], own[1][b]]) @ np.abs(layer["w1"]).reshape(2, -1) + layer["b1"]
        table[a, b] = np.abs(layer["w2"]) @ np.where(z > 0, z, np.exp(z) - 1) + offset
    return float(mixer["unit"]) * table


def test_the_joint_values_of_qmix_are_those_of_its_weights() -> None:
    with learned("qmix") as trainer:
        (learner,) = trainer.learners
        learner._set_unit(2.5)  # type: ignore[attr-defined]
        learner.teams[0].mixer.observe(torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]))  # type: ignore[attr-defined]
        found = beliefs(trainer.setup, trainer.policies, next(mixers(trainer.learners)))
        weights = trainer.get_weights()["default_policy"]
        state = trainer.learners[0].state_dict()["mixers"]["team"]["mixer"]
        for number, name in enumerate(("first", "safe", "risky")):
            assert np.allclose(found.joint[name], by_hand(weights, state, number), atol=1e-5)
            # The paper's point: each agent's own best action is part of the best pair.
            assert tuple(found.greedy[name]) == np.unravel_index(np.argmax(found.joint[name]), (2, 2))


def test_vdn_adds_up_and_independent_learners_have_no_joint_value() -> None:
    with learned("vdn") as trainer:
        found = beliefs(trainer.setup, trainer.policies, next(mixers(trainer.learners)))
        for name, (one, other) in found.members.items():
            assert np.allclose(found.joint[name], np.add.outer(one, other), atol=1e-6)
    with learned("dqn", multiagent={"policy_mapping_fn": "per_agent"}) as trainer:
        assert list(mixers(trainer.learners)) == []
        found = beliefs(trainer.setup, trainer.policies, None)
        assert found.to_json()["joint"] is None
        # Two policies: each is asked for its own agent.
        sights = np.array([[1, 0, 0, 1], [1, 0, 0, 2]])  # the first state, and whose turn it is
        for seat, agent in enumerate(("agent_0", "agent_1")):
            alone = trainer.policies[agent].values(torch.tensor(sights[[seat]]), torch.tensor([seat]))
            assert np.allclose(found.members["first"][seat], alone.detach().numpy()[0])


def test_what_greedy_play_earns_is_what_evaluation_measures() -> None:
    earned = set()
    for seed in range(4):
        with learned("dqn", seed=seed, evaluation={"interval": 1, "episodes": 1}) as trainer:
            found = beliefs(trainer.setup, trainer.policies, None)
            measured = trainer.evaluate()["episode_reward_mean"]
            assert greedy_return({}, found.greedy) == measured
            earned.add(measured)
    assert len(earned) > 1  # else this would say nothing


@pytest.mark.parametrize(
    ("algo", "keys", "why"),
    [
        ("ppo", {}, "learns no values of single actions"),
        ("dqn", {"model": {"use_gru": True, "lstm_cell_size": 4}}, "remember"),
        ("dqn", {"reward_scale": 0.5}, "scaled"),
    ],
)
def test_runs_without_tables_are_refused(algo: str, keys: dict[str, Any], why: str) -> None:
    with learned(algo, **keys) as trainer, pytest.raises(ConfigError, match=why):
        check_readable(trainer.setup, trainer.policies)


# -- the demo's runs ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results with a run of the demo, and one that is no such run."""
    folder = tmp_path_factory.mktemp("results")
    arguments = {"root": str(folder), "algo": "qmix", "seed": 3, "steps": 1024, "stop": str(folder / "stop")}
    explain.train(arguments, lambda *_: None)
    with learned("ppo", sgd_minibatch_size=64, train_batch_size=64) as trainer:
        trainer.store.create(folder)
    return folder


def test_a_run_of_the_demo_notes_what_its_checkpoint_believes(root: Path) -> None:
    (only,) = readable_runs(root)
    assert only["algo"] == "qmix"
    noted = read_notes(root / only["run"])
    assert noted is not None
    about, points = noted
    assert [point["steps"] for point in points] == [0, 256, 512, 768, 1024]
    assert about["truth"] == true_values({}, 0.99)
    assert about["keys"]["exploration_config"]["final_epsilon"] == 1.0  # uniform play
    arguments = {"folder": str(root / only["run"]), "run": only["run"], "allow": []}
    by_file = explain.values(arguments, lambda *_: None)
    assert by_file["points"] == points
    by_checkpoint = explain.of_checkpoints(arguments, lambda *_: None)
    assert by_checkpoint["points"][-1] == {**points[-1], "checkpoint": "checkpoint_000004"}
    assert by_checkpoint["keys"] == about["keys"]


def test_the_command_that_is_shown_is_the_demo(tmp_path: Path) -> None:
    words = command("vdn", 5).replace("'", "").split()
    assert words[:3] == ["marl", "run", "two_step_uniform"]
    from marl.scenario.load import load_scenario

    sets = [word for word in words[3:] if word != "--set"]
    assert load_scenario("two_step_uniform", sets) == demo_scenario("vdn", 5)


def test_a_line_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    assert read_notes(tmp_path) is None
    about, point = dict.fromkeys(sorted(ABOUT), 1), dict.fromkeys(sorted(POINT), 2)
    whole = f"{json.dumps(about)}\n{json.dumps(point)}\n"
    (tmp_path / NOTES).write_text(f'{whole}{{"ste')
    assert read_notes(tmp_path) == (about, [point])
    # What somebody else has written there is not shown; then the checkpoints are asked.
    for foreign in ("[]\n", "3\n", "not JSON\n", '{"algo": "qmix"}\n', f"{whole}{{}}\n"):
        (tmp_path / NOTES).write_text(foreign)
        assert read_notes(tmp_path) is None


def test_stopping_keeps_what_was_learned(tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    told = []

    def tell(done: float, total: float | None = None, text: str = "") -> None:
        told.append(done)
        if done >= 512:
            stop.touch()

    arguments = {"root": str(tmp_path), "algo": "dqn", "seed": 0, "steps": 100_000, "stop": str(stop)}
    found = explain.train(arguments, tell)
    assert found["done"] is False
    assert told == [0, 256, 512]
    assert json.loads((tmp_path / found["run"] / "state.json").read_text())["state"] == "stopped"
    assert list((tmp_path / found["run"] / "checkpoints").iterdir())


# -- the server --------------------------------------------------------------------------------------------------------


def test_the_demo_makes_its_folder_and_leads_to_the_page(tmp_path: Path) -> None:
    missing = tmp_path / "new" / "results"
    desk = _desk(WatchOptions(missing, demo=True))
    assert missing.is_dir()
    assert WatchServer(desk).page.endswith("/explain")
    with pytest.raises(ConfigError, match="there is no folder"):
        _desk(WatchOptions(tmp_path / "nowhere"))


def test_the_server_says_how_the_demo_stands_and_refuses_strange_wishes(root: Path) -> None:
    with watched(root) as server, client_of(server) as client:
        demo = client.get("/api/explain/demo").json()
        assert (demo["state"], demo["runs"], demo["wanted"]) == ("idle", [], False)
        for body in ({"seed": -1}, {"seed": "0"}, {"steps": 1}, {"steps": 10**9}):
            assert client.post("/api/explain/demo", json=body).status_code == 400, body
        assert client.post("/api/explain/values", json={"run": "../x"}).status_code == 404
        assert client.post("/api/explain/values", json={"run": 3}).status_code == 400


@pytest.mark.slow  # a process that imports torch
def test_the_server_reads_the_values_of_runs_that_are_there(root: Path) -> None:
    with watched(root) as server, client_of(server) as client:
        (run,) = client.get("/api/explain/runs").json()["runs"]
        told = done(client, "/api/explain/values", {"run": run["run"]})
        assert len(told["result"]["points"]) == 5


EXPLORED = """
  const { exploredWords } = await import("marl/parts/explain_words.js");
  return data.map((keys) => exploredWords([{ keys }]));
"""


def test_only_of_runs_that_play_by_chance_it_is_said_that_they_do(run_js: RunJs) -> None:
    greedy = load_scenario("two_step_game", changes={"num_workers": 0})
    by_chance, other = run_js(EXPLORED, [shown_keys(demo_scenario("qmix", 0)), shown_keys(greedy)])
    assert "drawn uniformly" in by_chance
    assert "drawn uniformly" not in other


# -- in a browser ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_demo_trains_to_its_end_while_the_page_looks_on(browser: Any, tmp_path: Path) -> None:
    with watched(tmp_path, demo=True) as server:
        show(browser, server, "?train=512")  # a part of the usual: two iterations
        wait_for(browser, "[data-algo=qmix] .values-panel")
        ready = "document.querySelector('.view-explain').dataset.state === 'ready'"
        wait_until(browser, ready, "the demo ends")
        assert "512 env steps" in text_of(browser)
        panels = browser.find_elements("css selector", ".values-panel")
        assert len(panels) == 4
        assert panels[0].get_attribute("aria-label").startswith("True values. State 1: A A: 6.93, A B: 6.93, B A: 7.92")
        for algo in ("qmix", "vdn", "dqn"):
            check_panel(browser, tmp_path, algo)
        # The slider goes back to the first values, and the address remembers where.
        browser.execute_script(
            "const s = document.getElementById('explain-time'); s.value = 0; s.dispatchEvent(new Event('input'))"
        )
        assert "steps=0" in browser.current_url
        assert text_of(browser).count("0 env steps") >= 1
        assert "Again" in text_of(browser)
        assert complaints(browser) == []


def check_panel(browser: Any, root: Path, algo: str) -> None:
    """What is on the page is what the run has noted last."""
    (run,) = [run for run in readable_runs(root) if run["algo"] == algo]
    noted = read_notes(root / run["run"])
    assert noted is not None
    last = noted[1][-1]
    one, other = last["members"]["risky"]
    table = last["joint"]["risky"] if last["joint"] else [[a + b for b in other] for a in one]
    told = browser.find_element("css selector", f"[data-algo={algo}] .values-panel").get_attribute("aria-label")
    shown = f"B B: {table[1][1]:.2f}".replace("-", "−")
    assert told.split("State 2B")[1].count(shown) == 1
    words = browser.find_element("css selector", f"section[data-algo={algo}]").text
    assert f"the team earns {last['reward']:g}" in words
