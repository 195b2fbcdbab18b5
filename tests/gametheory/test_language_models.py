"""Language models as players: what they are asked, how they are read, and how exploitable they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from marl.envs.registry import make_batched_env
from marl.errors import ConfigError, JournalError, PolicyError
from marl.gametheory.language import interval
from marl.gametheory.language.answers import action_in, chances_in, request_for
from marl.gametheory.language.interval import exploit_language_model, measured
from marl.gametheory.language.player import LanguageModelPolicy, Opinion
from marl.gametheory.language.views import texts_of_views, view_key
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.response import nash_conv
from marl.gametheory.tree.tree import Behaviour, Tree
from marl.gametheory.tree.value import equilibrium
from marl.policies.build import build_policy
from marl.policies.config import PolicySpec
from marl.policies.language_config import LanguageModelConfig
from marl.policies.policy import Inputs
from marl.scenario.load import compose
from marl.scenario.policy_entries import parse_entry
from marl.training.trainer import Trainer
from tests.command import marl as run_marl
from tests.gametheory.stub_model import Stub, chances_of, drawing, letters_of, said, serving, telling

KUHN = "kuhn_poker"


def truth(tree: Tree, env_config: dict[str, Any] | None = None) -> Behaviour:
    """What the stub really plays, as a strategy."""
    texts = texts_of_views(tree.name, env_config)
    strategy = np.zeros(tree.num_choices)
    for number, player in enumerate(tree.sets.player.tolist()):
        text = texts[player][view_key(np.array(tree.sets.obs[number]))]
        first, count = int(tree.sets.first_choice[number]), int(tree.sets.num_actions[number])
        strategy[first : first + count] = chances_of(request_for(LanguageModelConfig(), text, 0, ()))
    return strategy


def asking(stub: Stub, **keys: Any) -> LanguageModelConfig:
    return LanguageModelConfig(base_url=stub.url, **keys)


def player(config: LanguageModelConfig) -> LanguageModelPolicy:
    kind = make_batched_env(KUHN, 1, {}).kinds[0]
    return LanguageModelPolicy(kind, config.model_copy(update={"env": KUHN}))


# -- exploitability ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("salt", [1, 2, 3])
def test_the_interval_holds_what_a_known_policy_is_worth(salt: int) -> None:
    tree = build_tree(KUHN)
    with serving(drawing(salt)) as stub:
        found = exploit_language_model(KUHN, {}, asking(stub, samples=15), draws=300)
        assert len(stub.requests) == 12 * 15  # every information set once, so many times
    real = nash_conv(tree, truth(tree))
    assert found.low <= real <= found.high
    assert found.nash_conv != pytest.approx(real, abs=1e-6)
    assert found.high - found.low < 1.5  # and is not so wide that it says nothing
    assert (found.information_sets, found.answers, found.fallbacks) == (12, 180, 0)


def test_chances_that_the_model_tells_itself_are_exact_on_leduc() -> None:
    tree = build_tree("leduc_poker", {"ranks": 2})
    with serving(telling) as stub:
        found = exploit_language_model("leduc_poker", {"ranks": 2}, asking(stub, chances="logprobs"))
        assert len(stub.requests) == len(tree.sets.player)
    assert found.nash_conv == pytest.approx(nash_conv(tree, truth(tree, {"ranks": 2})), abs=1e-9)
    assert found.low == found.high == found.nash_conv


@pytest.mark.parametrize("env", [KUHN, "leduc_poker"])
@pytest.mark.parametrize("real", ["uniform", "equilibrium"])
def test_intervals_of_samples_hold_the_truth_of_good_and_of_bad_play(env: str, real: str) -> None:
    tree, rng = build_tree(env), np.random.default_rng(7)
    strategy = tree.uniform() if real == "uniform" else equilibrium(tree).strategy
    width = int(tree.sets.action.max()) + 1
    held = 0
    for seed in range(8):
        opinions = []
        for first, count in zip(tree.sets.first_choice.tolist(), tree.sets.num_actions.tolist(), strict=True):
            counts, chances = np.zeros(width), strategy[first : first + count]
            counts[tree.sets.action[first : first + count]] = rng.multinomial(20, chances / chances.sum())
            opinions.append(Opinion(counts, False, 0))
        found = measured(tree, opinions, seed=seed, draws=150)
        held += found.low <= nash_conv(tree, strategy) <= found.high
    assert held >= 7  # at 95 % fewer than 7 of 8 happen in 6 of 100 cases; the seeds are fixed


def test_the_command_tells_the_interval(tmp_path: Path) -> None:
    with serving(drawing(1)) as stub:
        file = tmp_path / "player.yaml"
        model = {"base_url": stub.url, "model": "stub", "samples": 2}
        file.write_text(json.dumps({"env": KUHN, "language_model": model}))
        done = run_marl("exploit", str(file))
    assert done.code == 0, done.err
    assert done.out.startswith("NashConv ~ ")
    assert "95 % interval" in done.out
    assert "12 information sets, 24 answers counted" in done.out


def test_a_wrong_file_is_told_before_anybody_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "player.yaml"
    file.write_text(json.dumps({"env": KUHN, "language_model": {"modle": "x"}}))
    done = run_marl("exploit", str(file))
    assert done.code == 2
    assert "Did you mean 'model'" in done.err


# -- asking ------------------------------------------------------------------------------------------------------------


def test_answers_are_read_strictly() -> None:
    (text,) = [
        text for text in texts_of_views(KUHN)[0].values() if "holds K" in text.seen and "Moves: none" in text.seen
    ]
    assert [action_in(said, text) for said in ("A", " b. ", "'Bet'", "(pass)")] == [0, 1, 1, 0]
    assert [action_in(said, text) for said in ("", "C", "I bet", "A or B", "fold", "AB")] == [None] * 6
    assert chances_in(None, text) is None
    assert chances_in({"content": [{"top_logprobs": [{"token": "Well", "logprob": 0.0}]}]}, text) is None


def test_a_model_that_names_no_legal_action_is_asked_again_and_then_the_fallback_counts() -> None:
    tries: list[int] = []

    def stubborn(request: dict[str, Any]) -> dict[str, Any]:
        tries.append(len(request["messages"]))
        return said("raise")

    with serving(stubborn) as stub:
        for fallback, expected in (("uniform", [0.5, 0.5]), ("first", [1.0, 0.0])):
            policy = player(asking(stub, samples=2, retries=2, fallback=fallback))
            assert policy.probabilities(seen(), NOTHING).tolist() == [expected]
            assert policy.opinion(0, seen().obs[0]).fallbacks == 2
        with pytest.raises(PolicyError, match="named no legal action after 3 tries"):
            player(asking(stub, fallback="error")).probabilities(seen(), NOTHING)
    assert tries[:3] == [2, 4, 6]  # each time with what was wrong before


NOTHING = np.zeros((1, 0), np.float32)


def seen() -> Inputs:
    """What ``player_0`` sees at the start of one game of Kuhn poker."""
    frame = make_batched_env(KUHN, 1, {}).reset(np.array([0]), np.array([0]))
    return Inputs(frame.obs[0][:, 0], np.ones((1, 0), bool), np.zeros(1, np.int64))


def test_a_journal_repeats_a_run_without_the_model(tmp_path: Path) -> None:
    journal = tmp_path / "asked" / "kuhn.jsonl"
    with serving(drawing(1)) as stub:
        first = exploit_language_model(KUHN, {}, asking(stub, samples=2, journal=str(journal)), draws=20)
    again = asking(stub, samples=2, journal=str(journal), offline=True)
    assert exploit_language_model(KUHN, {}, again, draws=20) == first
    with pytest.raises(PolicyError, match="does not hold the question"):
        exploit_language_model(KUHN, {}, again.model_copy(update={"samples": 3}), draws=20)
    with pytest.raises(PolicyError, match="no language model answers at http"):
        exploit_language_model(KUHN, {}, again.model_copy(update={"samples": 3, "offline": False}), draws=20)


def test_a_torn_last_line_of_a_journal_is_asked_again(tmp_path: Path) -> None:
    journal = tmp_path / "kuhn.jsonl"
    with serving(drawing(1)) as stub:
        config = asking(stub, samples=2, journal=str(journal))
        before = player(config).probabilities(seen(), NOTHING)
        whole = journal.read_bytes()
        journal.write_bytes(whole[:-20])
        stub.requests.clear()
        assert (player(config).probabilities(seen(), NOTHING) == before).all()
        assert len(stub.requests) == 1
    assert journal.read_bytes() == whole


def test_a_file_that_is_no_journal_is_not_written_to(tmp_path: Path) -> None:
    notes = tmp_path / "notes.jsonl"
    notes.write_text('{"my": "notes"}\n')
    with pytest.raises(JournalError, match="line 1, is no entry"):
        player(LanguageModelConfig(journal=str(notes)))
    assert notes.read_text() == '{"my": "notes"}\n'
    with pytest.raises(ValidationError, match="expected a file that ends in"):
        LanguageModelConfig(journal=str(tmp_path / "profile"))


@pytest.mark.parametrize("url", ["http://example.org/v1", "https://127.0.0.1/v1", "http://127.0.0.1.example.org/v1"])
def test_only_servers_on_this_machine_are_asked(url: str) -> None:
    with pytest.raises(ValidationError, match="does not leave this machine"):
        LanguageModelConfig(base_url=url)


def test_a_server_that_sends_us_elsewhere_is_not_followed() -> None:
    with serving(drawing(1)) as elsewhere, serving(drawing(1)) as stub:
        stub.status, stub.headers = 302, {"Location": f"{elsewhere.url}/chat/completions"}
        with pytest.raises(PolicyError, match="answered 302"):
            player(asking(stub)).probabilities(seen(), NOTHING)
        assert elsewhere.requests == []


def test_an_answer_of_another_form_is_told() -> None:
    with serving(lambda _: {"text": "A"}) as stub, pytest.raises(PolicyError, match="something else than a chat"):
        player(asking(stub)).probabilities(seen(), NOTHING)


def test_a_server_without_log_probabilities_is_told() -> None:
    with serving(drawing(1)) as stub, pytest.raises(PolicyError, match="tells no log probabilities of these 2 actions"):
        player(asking(stub, chances="logprobs")).probabilities(seen(), NOTHING)


# -- as a policy -------------------------------------------------------------------------------------------------------


def test_a_scenario_names_a_language_model_and_it_reads_the_scenarios_env() -> None:
    with serving(drawing(1)) as stub:
        keys = {"name": "language_model", "language_model": {"base_url": stub.url, "samples": 3}}
        scenario = compose({"env": KUHN, "env_config": {"players": 3}, "policies": {"a": {"scripted": keys}}})
        scripted = parse_entry(scenario, "a").scripted
        env = make_batched_env(KUHN, 4, {"players": 3})
        policy = build_policy(PolicySpec("scripted", 0, scripted=scripted), env.kinds[0])
        frame = env.reset(np.arange(4), np.arange(4))
        inputs = Inputs(frame.obs[0][:, 0], np.ones((4, 0), bool), np.zeros(4, np.int64))
        decision = policy.act(inputs, np.zeros((4, 0), np.float32), np.random.default_rng(0), explore=True)
        assert set(decision.actions.tolist()) <= {0, 1}
        asked = len(stub.requests)
        assert asked <= 4 * 3
        policy.act(inputs, np.zeros((4, 0), np.float32), np.random.default_rng(1), explore=True)
        assert len(stub.requests) == asked  # once per view


def test_a_learner_trains_against_a_language_model_and_both_are_measured(tmp_path: Path) -> None:
    with serving(drawing(1)) as stub:
        model = {"base_url": stub.url, "samples": 3, "journal": str(tmp_path / "kuhn.jsonl")}
        policies = {"learner": {}, "model": {"scripted": {"name": "language_model", "language_model": model}}}
        mapping = {"player_0": "learner", "player_1": "model"}
        keys = {"env": KUHN, "algo": "ppo", "num_workers": 0, "train_batch_size": 60, "policies": policies}
        trainer = Trainer(config={**keys, "policy_mapping_fn": mapping})
        result = trainer.train()
        trainer.save(tmp_path / "saved")
        trainer.stop()
        assert result["policy_reward_mean"]["model"] == -result["policy_reward_mean"]["learner"]
        asked = len(stub.requests)
        assert asked == 6 * 3  # the six information sets of its seat
    # The journal answers now, for the server is gone.
    done = run_marl("exploit", str(tmp_path / "saved"))
    assert done.code == 0, done.err
    assert "(exact)" in done.out


def test_a_view_of_another_game_is_told() -> None:
    wrong = Inputs(np.full((1, 11), 0.25, np.float32), np.ones((1, 0), bool), np.zeros(1, np.int64))
    with pytest.raises(PolicyError, match="sees something that env 'kuhn_poker'"):
        player(LanguageModelConfig()).probabilities(wrong, NOTHING)


def test_keys_of_a_language_model_need_one() -> None:
    keys = {"name": "random", "language_model": {"model": "x"}}
    with pytest.raises(ConfigError, match="language_model"):
        parse_entry(compose({"env": KUHN, "policies": {"a": {"scripted": keys}}}), "a")


# -- what must not happen ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["all my notes, one line", '{"my": "notes"}', '{"answer"'])
def test_a_last_line_without_an_end_is_dropped_only_if_it_was_written_here(tmp_path: Path, content: str) -> None:
    notes = tmp_path / "notes.jsonl"
    notes.write_text(content)
    if content == '{"answer"':
        player(LanguageModelConfig(journal=str(notes)))
        assert notes.read_text() == ""
        return
    with pytest.raises(JournalError, match="line 1, is no entry"):
        player(LanguageModelConfig(journal=str(notes)))
    assert notes.read_text() == content


def test_an_entry_whose_line_has_lost_its_end_is_kept(tmp_path: Path) -> None:
    journal = tmp_path / "kuhn.jsonl"
    with serving(drawing(1)) as stub:
        config = asking(stub, samples=2, journal=str(journal))
        player(config).probabilities(seen(), NOTHING)
        whole = journal.read_bytes()
        journal.write_bytes(whole.rstrip())
        stub.requests.clear()
        player(config).probabilities(seen(), NOTHING)
        assert not stub.requests
    assert journal.read_bytes() == whole


def test_a_journal_that_cannot_be_one_is_told(tmp_path: Path) -> None:
    nested, folder = tmp_path / "nested.jsonl", tmp_path / "folder.jsonl"
    nested.write_text("[" * 200_000 + "\n")
    with pytest.raises(JournalError, match="is no entry"):
        player(LanguageModelConfig(journal=str(nested)))
    folder.mkdir()
    with pytest.raises(JournalError, match="cannot be read as a journal"):
        player(LanguageModelConfig(journal=str(folder)))
    (tmp_path / "file").write_text("")
    with serving(drawing(1)) as stub, pytest.raises(JournalError, match="cannot be kept in"):
        player(asking(stub, journal=str(tmp_path / "file" / "a.jsonl"))).probabilities(seen(), NOTHING)


def test_options_of_checkpoints_are_refused_where_a_language_model_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "player.yaml"
    file.write_text(json.dumps({"env": KUHN}))
    done = run_marl("exploit", str(file), "--method", "trained", "--max-nodes", "5")
    assert done.code == 2
    assert "--method, --max-nodes is about checkpoints" in done.err


def test_an_env_without_texts_is_refused_before_its_tree_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a tree of replayed episodes takes minutes")

    monkeypatch.setattr(interval, "build_tree", never)
    with pytest.raises(ConfigError, match="is no native env"):
        exploit_language_model("CartPole-v1", {}, LanguageModelConfig())


def test_the_game_is_said_once(tmp_path: Path) -> None:
    file = tmp_path / "player.yaml"
    file.write_text(json.dumps({"env": KUHN, "language_model": {"env": "leduc_poker"}}))
    done = run_marl("exploit", str(file))
    assert done.code == 2
    assert "language_model has env, but the game stands beside it" in done.err


def test_information_sets_that_look_the_same_are_one_question() -> None:
    """Drawn apart, the errors of many sets would cancel out, though the model was asked only once about all of them."""
    tree = build_tree("matrix_game", {"game": "matching_pennies", "repetitions": 3})
    shared = [Opinion(np.array([14.0, 6.0]), False, 0), Opinion(np.array([10.0, 10.0]), False, 0)]
    apart, same = [], []
    for one in tree.sets.player.tolist():
        same.append(shared[one])
        apart.append(Opinion(shared[one].counts, False, 0))
    found = measured(tree, same, draws=200)
    assert (found.answers, measured(tree, apart, draws=2).answers) == (40, 20 * len(apart))
    # Three rounds of one game by two mixtures: three times what one round of it says.
    once = build_tree("matrix_game", {"game": "matching_pennies"})
    single = measured(once, shared, draws=200)
    assert (found.low, found.high) == pytest.approx((3 * single.low, 3 * single.high), rel=1e-9)


def test_actions_of_one_name_stay_different_ones() -> None:
    config = {"payoffs": [[[1, 0], [0, 1]], [[0, 1], [1, 0]]], "actions": [["go", "go"], ["a", "b"]]}
    for text in texts_of_views("matrix_game", config)[0].values():
        assert sorted(text.actions.values()) == [0, 1]


def test_an_interval_holds_no_nash_conv_that_cannot_be(tmp_path: Path) -> None:
    """Nim pays 1 and -1, so two best replies gain 2 at most; and nobody gains less than nothing."""
    config = {"piles": [1, 2]}
    with serving(lambda request: said(letters_of(request)[0])) as stub:
        found = exploit_language_model("nim", config, asking(stub, samples=2), draws=100)
    assert found.nash_conv == 2.0
    assert 0.0 <= found.low < found.high == 2.0


def test_a_scenario_is_no_file_about_a_language_model(tmp_path: Path) -> None:
    file = tmp_path / "kuhn.yaml"
    file.write_text("env: kuhn_poker\nalgo: ppo\n")
    done = run_marl("exploit", str(file))
    assert done.code == 2
    assert done.err.startswith(f"error: {file} is a scenario.")
    assert f"marl run {file}" in done.err
