"""Chance in trees: listed exactly or sampled with an honest error; what an env says wrongly about itself is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from marl.data.task import AgentType
from marl.envs.base import ALL, StepResult
from marl.envs.batched import NativeEnv
from marl.envs.games.cards.kuhn import KuhnGames
from marl.envs.registry import make_batched_env
from marl.errors import ChanceError, ConfigError
from marl.gametheory.merged.positions import positions_of
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.chance import enough
from marl.gametheory.tree.env_walker import Start
from marl.gametheory.tree.repeats import REPLAYED, courses, parts_at
from marl.gametheory.tree.response import expected_values, nash_conv
from marl.gametheory.tree.sampled import gains_with_errors, value_errors
from marl.gametheory.tree.tree import Behaviour, ChanceSample, Tree
from marl.gametheory.tree.value import equilibrium

from .card_games import CARDS, DEALS, FIRST, SECOND, CardGame, ListedCardGame, Rule, earned, true_gains, true_value

BETS = [Fraction(1, 3), Fraction(0), Fraction(1, 4), Fraction(1)]
CALLS = [Fraction(0), Fraction(1, 5), Fraction(1, 2), Fraction(1)]


def strategy(tree: Tree, first: Rule = BETS, second: Rule = CALLS) -> Behaviour:
    """The fixed rules as a strategy of the tree."""
    found = np.zeros(tree.num_choices)
    for i, (player, card) in enumerate(zip(tree.sets.player, tree.sets.obs, strict=True)):
        chance = float((first, second)[player][int(card[0])])
        at = tree.sets.first_choice[i]
        found[at], found[at + 1] = 1.0 - chance, chance
    return found


@pytest.fixture(scope="module")
def sampled() -> Tree:
    return build_tree(CardGame)


# -- listed --------------------------------------------------------------------------------------------------------


def test_a_listed_game_of_twelve_deals_is_solved_exactly() -> None:
    tree = build_tree(ListedCardGame)
    assert (tree.chance, tree.sample, tree.num_children[0]) == ("exact", None, 12)
    gains = gains_with_errors(tree, strategy(tree))
    assert gains.gains == pytest.approx([float(gain) for gain in true_gains(BETS, CALLS)], abs=1e-9)
    assert (gains.total_error, gains.errors.tolist()) == (0.0, [0.0, 0.0])
    assert nash_conv(tree, strategy(tree)) == pytest.approx(float(sum(true_gains(BETS, CALLS))), abs=1e-9)
    assert expected_values(tree, strategy(tree))[0] == pytest.approx(float(earned(BETS, CALLS)), abs=1e-9)
    assert equilibrium(tree).values[0] == pytest.approx(true_value(), abs=1e-9)
    assert value_errors(tree, strategy(tree)).tolist() == [0.0, 0.0]


class Weighted(ListedCardGame):
    """A third of all games is dealt (0, 1), in two outcomes of the same name in the game; weights are fractions in a dict."""

    def chance_outcomes(self) -> Any:
        return {
            **{deal: Fraction(2, 33) for deal in DEALS[1:]},
            (0, 1): Fraction(1, 6),
            (0, 1, "again"): Fraction(1, 6),
        }

    def _deal(self, options: Mapping[str, Any]) -> tuple[int, int]:
        drawn = DEALS[0] if self.rng.random() < 1 / 3 else DEALS[1 + int(self.rng.integers(11))]
        return options.get("chance", drawn)[:2]


def test_outcomes_have_their_own_probabilities_and_those_that_play_alike_count_together() -> None:
    tree = build_tree(Weighted)
    assert tree.num_children[0] == 12
    assert sorted(tree.probability[1:13].tolist()) == pytest.approx([2 / 33] * 11 + [1 / 3])


# -- seeds ---------------------------------------------------------------------------------------------------------


def test_seeds_are_drawn_until_nothing_new_comes_up(sampled: Tree) -> None:
    assert sampled.chance == "sampled"
    assert sampled.sample is not None
    assert sampled.sample.starts == 12
    assert sampled.sample.seeds >= 12 + enough(12)
    assert sampled.probability[1:13] * sampled.sample.seeds == pytest.approx(sampled.sample.counts)
    assert 0 < sampled.sample.unseen < 0.01


class Seldom(CardGame):
    """Deals the same cards but for one seed, 100."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=0)
        self.cards = (1, 2) if seed == 100 else (2, 1)
        return {FIRST: self.cards[0]}, {}


def test_chance_that_few_seeds_would_not_show_is_found() -> None:
    tree = build_tree(Seldom)
    assert tree.sample is not None
    assert tree.sample.counts.tolist() == [tree.sample.seeds - 1, 1]
    assert tree.sample.seeds == 101 + enough(2)


def test_nothing_is_left_of_a_start_that_did_not_fit() -> None:
    tree = build_tree(Seldom, max_nodes=8)  # six nodes for the first deal, five more for the other
    assert tree.sample is not None
    assert tree.sample.counts.tolist() == [100]
    assert len(tree.sets) == 2
    assert tree.num_choices == 4
    assert gains_with_errors(tree, tree.uniform()).total_error > 0


def test_sampled_figures_are_within_their_errors_which_are_not_zero(sampled: Tree) -> None:
    gains = gains_with_errors(sampled, strategy(sampled))
    assert 0 < gains.total_error < 0.1
    assert gains.nash_conv == pytest.approx(float(sum(true_gains(BETS, CALLS))), abs=2 * gains.total_error)
    for found, error, true in zip(gains.gains, gains.errors, true_gains(BETS, CALLS), strict=True):
        assert error > 0
        assert found == pytest.approx(float(true), abs=2 * error)
    for played, true in ((equilibrium(sampled).strategy, true_value()), (strategy(sampled), earned(BETS, CALLS))):
        error = value_errors(sampled, played)[0]
        assert 0 < error < 0.1
        assert expected_values(sampled, played)[0] == pytest.approx(float(true), abs=2 * error)


def test_errors_are_as_large_as_figures_of_many_samples_are_wrong() -> None:
    """Sixty samples of 2,000 seeds: their mean squared distance from the truth is what they say it is, within sampling."""
    tree = build_tree(CardGame, chance_samples=60)
    assert tree.sample is not None
    assert tree.sample.starts == 12
    rng, true = np.random.default_rng(0), np.array([float(gain) for gain in true_gains(BETS, CALLS)])
    off, said = [], []
    for _ in range(60):
        drawn = _reweighted(tree, rng.multinomial(2_000, [1 / 12] * 12))
        gains = gains_with_errors(drawn, strategy(drawn))
        off.append([*(gains.gains - true), gains.nash_conv - true.sum()])
        said.append([*gains.errors, gains.total_error])
    wrong, stated = (np.sqrt(np.mean(np.square(numbers), axis=0)) for numbers in (off, said))
    assert np.mean(off, axis=0)[2] > 0  # best responses to a sample err upwards
    assert stated / wrong == pytest.approx([1.0, 1.0, 1.0], abs=0.35)


def _reweighted(tree: Tree, counts: Any) -> Tree:
    from dataclasses import replace

    probability = tree.probability.copy()
    probability[1:13] = counts / counts.sum()
    return replace(tree, probability=probability, sample=ChanceSample(counts))


class Rare(CardGame):
    """One deal in a thousand is another, first that of seed 500."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.cards = (0, 1) if (seed or 0) % 1000 == 500 else (1, 0)
        return {FIRST: 0}, {}


@pytest.mark.parametrize("samples", [None, enough(1) + 1])
def test_seeds_that_all_look_alike_are_a_sample_with_an_error_and_not_exact(samples: int | None) -> None:
    tree = build_tree(Rare, chance_samples=samples)
    assert tree.sample is not None
    assert (tree.chance, tree.sample.counts.tolist()) == ("sampled", [enough(1) + 1])
    assert tree.sample.unseen == pytest.approx(2 / (enough(1) + 2))
    gains = gains_with_errors(tree, tree.uniform())
    assert gains.errors == pytest.approx(tree.sample.unseen * np.ptp(tree.payoffs[tree.terminal], axis=0))
    assert gains.total_error > 0


class OffThePath(CardGame):
    """One card is dealt to all; only who bets nine times in a row meets a die, which falls well for one seed in twenty."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.lucky, self.bets = (seed or 0) % 20 == 19, 0
        return {FIRST: 0}, {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        self.bets += actions[FIRST]
        if actions[FIRST] and self.bets < 9:
            return StepResult({FIRST: 0}, {}, {}, {}, {})
        won = (500.0 if self.lucky else -1.0) if self.bets == 9 and actions[FIRST] else 0.0
        return StepResult({FIRST: 0}, {FIRST: won, SECOND: -won}, {ALL: True}, {ALL: False}, {})


def test_chance_that_random_play_does_not_reach_is_found() -> None:
    tree = build_tree(OffThePath, max_nodes=100)
    assert tree.sample is not None
    assert tree.sample.starts == 2
    assert nash_conv(tree, tree.uniform()) > 10


class Bush(CardGame):
    """Four rounds of both players: 4^4 ends. Nothing is random, which it does not say."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.rounds = 0
        return {FIRST: 0, SECOND: 0}, {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        self.rounds += 1
        over = {ALL: self.rounds == 4}
        return StepResult({FIRST: 0, SECOND: 0}, {FIRST: float(actions[FIRST]), SECOND: 0.0}, over, {ALL: False}, {})


def test_the_error_counts_whole_trees_that_were_compared_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marl.gametheory.tree.chance.ALIKE_NODES", 1_000)
    tree = build_tree(Bush)
    assert tree.sample is not None
    assert (len(tree), tree.sample.counts.tolist()) == (511, [2])
    assert gains_with_errors(tree, tree.uniform()).errors == pytest.approx([4 * 2 / 3, 4 * 2 / 3])


def test_few_seeds_say_how_little_they_saw() -> None:
    tree = build_tree(CardGame, chance_samples=8)
    assert tree.sample is not None
    assert tree.sample.as_json() == {"seeds": 8, "starts": 6, "unseen": pytest.approx(5 / 9)}
    gains = gains_with_errors(tree, strategy(tree))
    assert gains.total_error > 1
    single = build_tree(CardGame, chance_samples=1)
    assert gains_with_errors(single, strategy(single)).total_error >= 1
    assert value_errors(single, strategy(single))[0] >= 1


def test_seeds_may_be_asked_for_where_chance_is_listed() -> None:
    for env in (ListedCardGame, "kuhn_poker"):
        tree = build_tree(env, chance_samples=30)
        assert tree.chance == "sampled"
        assert gains_with_errors(tree, tree.uniform()).total_error > 0


class Dice(CardGame):
    """Its first player is shown a number that hardly ever comes twice."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self.seen = spaces.Box(0.0, CARDS, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        return {FIRST: np.float32([self.rng.random()])}, {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        result = super().step(actions)
        return result._replace(obs={agent: np.float32([card]) for agent, card in result.obs.items()})


def test_an_env_that_never_repeats_is_refused_rather_than_measured_on_a_sample() -> None:
    with pytest.raises(ConfigError, match=r"200 reset seeds gave 200 different starts.*chance_outcomes\(\)"):
        build_tree(Dice)
    assert build_tree(Dice, chance_samples=5).sample is not None


def test_drawing_stops_before_the_tree_is_too_large() -> None:
    tree = build_tree(CardGame, max_nodes=58)  # twelve deals need 61 nodes
    assert len(tree) <= 58
    assert tree.sample is not None
    assert tree.sample.starts == 11
    counts = np.bincount(tree.infoset[tree.infoset >= 0], minlength=len(tree.sets))
    assert (counts > 0).all()  # no information set of the deal that did not fit is left


# -- random steps --------------------------------------------------------------------------------------------------


class LuckyPay(CardGame):
    """Every end pays one more or less, by a draw from the episode's own generator."""

    def step(self, actions: dict[str, Any]) -> StepResult:
        result = super().step(actions)
        if not result.rewards:
            return result
        luck = float(self.rng.integers(2)) * 2 - 1
        return result._replace(rewards={FIRST: result.rewards[FIRST] + luck, SECOND: result.rewards[SECOND] - luck})


def test_steps_that_are_random_by_the_seed_are_sampled_with_an_error() -> None:
    tree = build_tree(LuckyPay, chance_samples=60)
    assert tree.sample is not None
    assert tree.sample.starts > 12
    error = value_errors(tree, strategy(tree))[0]
    assert expected_values(tree, strategy(tree))[0] == pytest.approx(float(earned(BETS, CALLS)), abs=2 * error)


class ListedLuckyPay(LuckyPay, ListedCardGame):
    pass


class Unseeded(LuckyPay):
    """Draws from a generator that no reset touches."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        shown = super().reset(seed=seed, options=options)
        self.rng = self.__dict__.setdefault("other", np.random.default_rng(1))
        return shown


class Forgetful(LuckyPay):
    """Its state lacks the generator."""

    def get_state(self) -> Any:
        return {"cards": list(self.cards)}

    def set_state(self, state: Any) -> None:
        self.cards = tuple(state["cards"])


@pytest.mark.parametrize("env", [Unseeded, Forgetful])
def test_steps_that_no_seed_repeats_are_refused(env) -> None:
    with pytest.raises(ConfigError, match=r"reset seed \d+ and the same actions led elsewhere .*in step"):
        build_tree(env)


class RestlessPennies(NativeEnv):
    """Matching pennies whose payoff is drawn from a generator that is no part of its state."""

    name = "restless"
    state_arrays = ("turn",)

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        del env_config
        self.num_envs, self.turn = num_envs, np.zeros(num_envs, np.int64)
        self.rng = np.random.default_rng(0)
        self.kinds = (AgentType("p", ("a", "b"), spaces.Box(0.0, 1.0, (1,), np.float32), spaces.Discrete(2)),)

    def _start(self, env_ids: Any, seeds: Any) -> None:
        self.turn[env_ids] = 0

    def _view(self) -> Any:
        shown = np.zeros((self.num_envs, 2, 1), np.float32)
        return (
            [shown],
            [np.zeros((self.num_envs, 2, 0), bool)],
            np.ones((self.num_envs, 2), bool),
            np.zeros((self.num_envs, 0)),
        )

    def _play(self, actions: Sequence[Any]) -> Any:
        alike = np.where(actions[0][:, 0] == actions[0][:, 1], 1.0, -1.0) + self.rng.integers(2, size=self.num_envs)
        ended = np.ones((self.num_envs, 2), bool)
        paid = np.stack([alike, -alike], axis=1).astype(np.float32)
        return paid, ended, np.zeros_like(ended), np.ones(self.num_envs, bool)


class RestlessKuhn(KuhnGames):
    """Lists its deals, and pays by luck all the same."""

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        super().__init__(num_envs, env_config)
        self.rng = np.random.default_rng(0)

    def _play(self, actions: Sequence[Any]) -> Any:
        rewards, *rest = super()._play(actions)
        return (rewards + self.rng.integers(2, size=(self.num_envs, 1)).astype(np.float32), *rest)


class SeededPennies(RestlessPennies):
    """Pays by the seed, and says that nothing is random."""

    state_arrays = ("turn", "luck")
    deterministic = True

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        super().__init__(num_envs, env_config)
        self.luck = np.zeros(num_envs, np.int64)

    def _start(self, env_ids: Any, seeds: Any) -> None:
        super()._start(env_ids, seeds)
        self.luck[env_ids] = np.asarray(seeds) % 2

    def _play(self, actions: Sequence[Any]) -> Any:
        self.rng = np.random.default_rng(0)
        _, *rest = super()._play(actions)
        return (np.stack([self.luck, -self.luck], axis=1).astype(np.float32), *rest)


def test_an_array_env_that_says_wrongly_that_nothing_is_random_is_refused() -> None:
    with pytest.raises(ChanceError, match=r"reset\(seed=1\) begins .* though the env is `deterministic`"):
        build_tree(SeededPennies)


class Marathon(CardGame):
    """An episode of 600 steps that is replayed from its seed; counts the steps of all copies."""

    steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        return {FIRST: 0}, {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        Marathon.steps += 1
        self.t += 1
        return StepResult({FIRST: 0}, {FIRST: 0.0}, {ALL: self.t == 600}, {ALL: False}, {})


def test_long_courses_are_not_replayed_for_every_step() -> None:
    env = make_batched_env(Marathon, 1, {}, with_state=False)
    (course,) = courses(env, [Start(0)])
    Marathon.steps = 0
    assert parts_at(env, Start(0), course, take_back=True) is None
    assert 600 < Marathon.steps <= 600 + 2 * REPLAYED  # each step would be 600 * 601 / 2


@pytest.mark.parametrize("env", [RestlessPennies, RestlessKuhn])
def test_array_envs_with_random_steps_are_refused_too(env) -> None:
    with pytest.raises(ConfigError, match="the same actions led elsewhere"):
        build_tree(env)


class Safe(RestlessPennies):
    """``a`` locks a safe with one of two codes; ``b`` waits a step and then tries one. The code may be missing in its state."""

    deterministic = True
    state_arrays = ("turn",)

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        super().__init__(num_envs, env_config)
        self.code = np.zeros(num_envs, np.int64)

    def _start(self, env_ids: Any, seeds: Any) -> None:
        self.turn[env_ids] = self.code[env_ids] = 0

    def _view(self) -> Any:
        shown, legal, present, state = super()._view()
        shown[0][:] = np.minimum(self.turn, 2)[:, None, None] / 2
        present = np.stack([self.turn == 0, (self.turn > 0) & (self.turn < 3)], axis=1)
        return shown, legal, present, state

    def _play(self, actions: Sequence[Any]) -> Any:
        self.code = np.where(self.turn == 0, actions[0][:, 0], self.code)
        opened = np.where(actions[0][:, 1] == self.code, 1.0, -1.0) * (self.turn == 2)
        self.turn = self.turn + 1
        over = self.turn == 3
        ended = np.repeat(over[:, None], 2, axis=1)
        return np.stack([-opened, opened], axis=1), ended, np.zeros_like(ended), over


class WholeSafe(Safe):
    state_arrays = ("turn", "code")


@pytest.mark.parametrize("build", [build_tree, positions_of])
def test_an_array_that_is_missing_in_the_state_is_noticed(build: Any) -> None:
    build(WholeSafe)
    with pytest.raises(ConfigError, match="had begun another episode, a state went on differently"):
        build(Safe)


class Precise(ListedCardGame):
    """Pays what single precision cannot hold, or what is no number."""

    paid = 1e9 + 1

    def step(self, actions: dict[str, Any]) -> StepResult:
        result = super().step(actions)
        return result._replace(rewards=dict.fromkeys(result.rewards, self.paid))


class Unpaid(Precise):
    paid = float("nan")


@pytest.mark.parametrize("build", [build_tree, positions_of])
def test_payoffs_are_as_precise_as_the_env_tells_them(build: Any) -> None:
    for env, config in ((Precise, {}), ("matrix_game", {"payoffs": [[[1e9 + 1]], [[0.1]]]})):
        found = build(env, config)
        paid = found.payoffs if isinstance(found, Tree) else found.rewards
        assert 1e9 + 1 in paid.reshape(-1)
    assert 0.1 in paid.reshape(-1)


@pytest.mark.parametrize("build", [build_tree, positions_of])
def test_payoffs_that_are_no_numbers_are_refused(build: Any) -> None:
    with pytest.raises(ConfigError, match=r"a step paid nan to the agent in seat \d, .* finite number"):
        build(Unpaid)


# -- what is listed wrongly ----------------------------------------------------------------------------------------


class Deaf(CardGame):
    """Lists its deals and does not look at the option."""

    def chance_outcomes(self) -> Any:
        return [(deal, 1 / 12) for deal in DEALS]


class Half(ListedCardGame):
    """Lists six of its twelve deals."""

    def chance_outcomes(self) -> Any:
        return [(deal, 1 / 6) for deal in DEALS[:6]]


class WrongWeights(ListedCardGame):
    """Lists all its deals, the first with a third of all chance."""

    def chance_outcomes(self) -> Any:
        return [(deal, 1 / 3 if deal == DEALS[0] else 2 / 33) for deal in DEALS]


class NoOptions(ListedCardGame):
    """Lists its deals; its reset takes a seed alone."""

    def reset(self, *, seed: int | None = None) -> Any:
        return super().reset(seed=seed)


@pytest.mark.parametrize(
    ("env", "match"),
    [
        (WrongWeights, r"gives a start the probability 0\.3333, but \d+ of 128 reset seeds drew it"),
        (NoOptions, r"options=\{'chance': \(0, 1\)\}\) failed: .*reset has to accept options=\{'chance': outcome\}"),
        (
            Deaf,
            r"lists \(0, 1\), but .* plays differently with the seeds 0 and 1.*does not look at options\['chance'\]",
        ),
        (ListedLuckyPay, "plays differently with the seeds 0 and .*something else is random"),
        (Half, r"reset\(seed=\d+\) begins an episode that none of the 6 outcomes"),
    ],
)
def test_lists_that_are_not_true_are_refused(env, match) -> None:
    with pytest.raises(ChanceError, match=match):
        build_tree(env)


@pytest.mark.parametrize(
    ("listed", "match"),
    [
        ([], "is empty"),
        (None, "gave None, a NoneType. Expected pairs"),
        ("deals", "gave 'deals', a str"),
        ([1, 2], "holds 1. Expected pairs"),
        ([("a", 0.5, "b")], "holds .*Expected pairs"),
        ([("a", "half"), ("b", 0.5)], "the outcome 'a' the probability 'half', a str"),
        ([("a", True)], "probability True, a bool"),
        ([("a", float("nan")), ("b", 0.5)], "the outcome 'a' the probability nan"),
        ([("a", 0.0), ("b", 1.0)], "probability 0. Expected a finite number above 0; leave out"),
        ([("a", -0.5), ("b", 1.5)], "probability -0.5"),
        ([("a", 0.5), ("b", 0.4)], "the 2 probabilities of chance_outcomes.. sum to 0.9; expected 1"),
        ({"a": float("inf")}, "probability inf"),
    ],
)
def test_what_is_no_distribution_is_refused(listed: Any, match: str) -> None:
    class Wrong(CardGame):
        def chance_outcomes(self) -> Any:
            return listed

    with pytest.raises(ChanceError, match=match):
        build_tree(Wrong)


class HalfKuhn(KuhnGames):
    """Its deals have half of all chance."""

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        super().__init__(num_envs, env_config)
        self.deal_probabilities = self.deal_probabilities / 2


def test_deals_of_an_array_env_that_are_no_distribution_are_refused() -> None:
    with pytest.raises(ChanceError, match=r"deal_probabilities is .* with the sum 0\.5\. Expected"):
        build_tree(HalfKuhn)


def test_a_method_that_raises_is_named_with_its_line() -> None:
    class Raising(CardGame):
        def chance_outcomes(self) -> Any:
            raise KeyError("deck")

    with pytest.raises(ChanceError, match=r"chance_outcomes\(\) raised KeyError: 'deck'.*test_tree_chance.py"):
        build_tree(Raising)


# -- through adapters and wrappers ---------------------------------------------------------------------------------


class Coin(gym.Env[int, int]):
    """A Gymnasium env that lists its chance: guess a coin that falls 1 in a quarter of all cases."""

    observation_space, action_space = spaces.Discrete(2), spaces.Discrete(2)

    def chance_outcomes(self) -> Any:
        return {0: 0.75, 1: 0.25}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        drawn = int(self.np_random.random() < 0.25)
        self.coin = (options or {}).get("chance", drawn)
        return 0, {}

    def step(self, action: int) -> Any:
        return 0, float(action == self.coin), True, False, {}


def test_chance_is_listed_through_adapters_and_wrappers() -> None:
    from marl import to_pettingzoo
    from marl.envs.hierarchy.env import HierarchicalEnv
    from marl.envs.registry import make_env

    tree = build_tree(lambda config: gym.wrappers.TimeLimit(Coin(), 5))
    assert (tree.chance, tree.num_children[0]) == ("exact", 2)
    assert equilibrium_of_one(tree) == pytest.approx(0.75, abs=1e-12)
    for turns in (False, True):
        exported = build_tree(lambda config, turns=turns: to_pettingzoo(ListedCardGame(), turns))
        assert exported.chance == "exact"
        assert equilibrium(exported).values[0] == pytest.approx(true_value(), abs=1e-9)
    grouped = ListedCardGame().with_agent_groups({"team": [FIRST, SECOND]})
    assert len(grouped.chance_outcomes()) == 12  # type: ignore[attr-defined]
    assert grouped.reset(options={"chance": (3, 1)})[0]["team"][0] == 3
    wrapped = make_env("kuhn_poker", wrappers=[{"keep_entries": {"entries": [0, 1, 2]}}])
    assert len(wrapped.chance_outcomes()) == 6  # type: ignore[attr-defined]
    levels = [
        {"name": "top_level", "horizon": 2, "goals": {"features": [0], "changes": [[-1.0], [1.0]]}},
        {"name": "low_level"},
    ]
    ordered = HierarchicalEnv(make_env("kuhn_poker"), levels=levels)
    assert len(ordered.chance_outcomes()) == 6  # type: ignore[attr-defined]
    assert not hasattr(CardGame().with_agent_groups({"team": [FIRST, SECOND]}), "chance_outcomes")


def equilibrium_of_one(tree: Tree) -> float:
    """The most that the only player can earn."""
    from marl.gametheory.tree.response import best_response

    return best_response(tree, tree.uniform(), 0)[0]


class ArrayDeals(ListedCardGame):
    """Lists its deals as arrays, which cannot be compared by ==."""

    def chance_outcomes(self) -> Any:
        return [(np.array(deal), 1 / len(DEALS)) for deal in DEALS]

    def _deal(self, options: Any) -> Any:
        return tuple(np.asarray(super()._deal(options)).tolist())


@pytest.mark.parametrize("build", [build_tree, positions_of])
def test_outcomes_may_be_arrays(build: Any) -> None:
    found = build(ArrayDeals)
    assert found.chance == "exact"
    if isinstance(found, Tree):
        assert equilibrium(found).values[0] == pytest.approx(true_value(), abs=1e-9)


class LeavesCardsOut(ListedCardGame):
    """Lists its chance rightly, but its state does not hold the cards."""

    def get_state(self) -> Any:
        return {}

    def set_state(self, state: Any) -> None:
        del state


@pytest.mark.parametrize("build", [build_tree, positions_of])
def test_a_state_that_leaves_something_out_is_no_fault_of_the_list(build: Any) -> None:
    with pytest.raises(ConfigError, match=r"a state went on differently .* so it leaves something out"):
        build(LeavesCardsOut)
