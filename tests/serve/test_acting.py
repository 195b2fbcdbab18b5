"""Many episodes in one thread: decisions are made together, and each episode is played as if it were alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from marl.data.task import AgentType, Array, Floats
from marl.envs.external.steps import AgentReport, Answer, Step
from marl.errors import UserError
from marl.policies.build import build_policy
from marl.policies.config import ModelConfig, PolicySpec
from marl.policies.policy import Decision, Inputs, Policy
from marl.serve.acting import ActingLoop
from marl.serve.greenlet_line import GreenletLine

KIND = AgentType("agent", ("a", "b", "c"), spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(4), False)
WAIT = 20.0  # seconds until a test gives up on an answer


class ToldEpisode:
    """An episode as a hub would keep it."""

    def __init__(self, name: str) -> None:
        self.id, self.training = name, False
        self.steps: dict[int, Step] = {}
        self.begun: Future[int | None] = Future()

    def take(self, t: int) -> Step | None:
        return self.steps.get(t)


class Clients:
    """Says to a loop what clients would say through a hub, and hears its answers."""

    def __init__(self, loop: ActingLoop) -> None:
        self.loop = loop

    def began(self, episode: ToldEpisode, seed: int | None, slot: str) -> None:
        del slot
        episode.begun.set_result(seed)

    def answered(self, episode: ToldEpisode, step: Step, answer: Answer) -> None:
        del episode
        step.answer.set_result(answer)

    def recorded(self, episode: ToldEpisode, t: int) -> Answer | None:
        del episode, t
        return None

    def start(self, name: str) -> ToldEpisode:
        episode = ToldEpisode(name)
        self.loop.offer(episode)
        return episode

    def say(self, episode: ToldEpisode, t: int, obs: Array, **more: Any) -> Step:
        step = Step(t, {"a": AgentReport(obs)}, **more)
        episode.steps[t] = step
        self.loop.arrived(episode)
        return step


class Counted(Policy):
    """A policy that notes how many rows it was asked about at once."""

    def __init__(self, inner: Policy) -> None:
        super().__init__(inner.kind)
        self.inner, self.carry_size, self.draws_lots = inner, inner.carry_size, inner.draws_lots
        self.batches: list[int] = []

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        self.batches.append(len(inputs))
        if (inputs.obs > 1).any():
            raise ValueError("an observation that nobody can act on")
        return self.inner.act(inputs, carry, rng, explore=explore)

    def set_weights(self, weights: dict[str, Array]) -> None:
        self.inner.set_weights(weights)


def network(seed: int = 0, **model: Any) -> Policy:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build_policy(PolicySpec("value", 0, ModelConfig(fcnet_hiddens=[16], **model), seed=seed), KIND)


def echo_body(loop: ActingLoop, line: GreenletLine) -> Callable[[], None]:
    """Plays episodes of one agent without an env: asks the policy with what the client shows and what it remembers."""

    def play() -> None:
        policy = loop.policies["p"]
        while True:
            episode = line.next_episode(7)
            carry, t = np.zeros((1, policy.carry_size), np.float32), 0
            step = line.next_step(episode, 0)
            while not step.ends:
                inputs = Inputs(step.agents["a"].obs[None], np.ones((1, 0), bool), np.zeros(1, np.int64))
                decision = policy.act(inputs, carry, np.random.default_rng(), explore=False)
                carry, t = decision.carry, t + 1
                line.answer(episode, step, {"a": int(decision.actions[0])})
                step = line.next_step(episode, t)

    return play


Start = Callable[..., tuple[ActingLoop, Clients, Counted]]


@pytest.fixture
def start() -> Iterator[Start]:
    loops: list[ActingLoop] = []

    def started(policy: Policy, slots: int = 0, **keys: Any) -> tuple[ActingLoop, Clients, Counted]:
        counted = Counted(policy)
        loop = ActingLoop({"p": counted}, **keys)
        clients = Clients(loop)
        failures: list[BaseException] = []

        def more() -> None:
            loop.spawn(echo_body(loop, GreenletLine(loop, clients)), failures.append)

        loop.grow = more
        for _ in range(slots):
            more()
        loop.start()
        loops.append(loop)
        return loop, clients, counted

    yield started
    for loop in loops:
        loop.stop()
        assert not loop.running


def test_requests_of_many_episodes_are_one_pass_and_every_row_is_what_it_would_be_alone(start: Start) -> None:
    policy = network()
    _, clients, counted = start(policy, max_wait_ms=60_000.0)
    observations = np.random.default_rng(1).uniform(-1, 1, (8, 3)).astype(np.float32)
    episodes = [clients.start(f"e{i}") for i in range(8)]
    for episode in episodes:
        assert episode.begun.result(WAIT) == 7
    steps = [clients.say(episode, 0, obs) for episode, obs in zip(episodes, observations, strict=True)]
    answers = [step.answer.result(WAIT).actions["a"] for step in steps]
    assert counted.batches == [8]  # nobody waited a minute: all who play had asked
    alone = [
        int(policy.act(Inputs(o[None], np.ones((1, 0), bool), np.zeros(1, int)), np.zeros((1, 0), np.float32),
                       np.random.default_rng(), explore=False).actions[0])
        for o in observations
    ]  # fmt: skip
    assert answers == alone
    assert len(set(alone)) > 1


def test_a_request_waits_no_longer_than_it_must_for_clients_that_think(start: Start) -> None:
    _, clients, counted = start(network(), max_wait_ms=1.0)
    thinking, quick = clients.start("thinking"), clients.start("quick")
    assert thinking.begun.result(WAIT) == quick.begun.result(WAIT) == 7
    assert "a" in clients.say(quick, 0, np.zeros(3, np.float32)).answer.result(WAIT).actions
    assert counted.batches == [1]


def test_memories_of_interleaved_episodes_are_kept_apart(start: Start) -> None:
    policy = network(use_gru=True, max_seq_len=4)
    assert policy.carry_size
    _, clients, counted = start(policy, max_wait_ms=60_000.0)
    shown = np.random.default_rng(2).uniform(-1, 1, (3, 6, 3)).astype(np.float32)
    episodes = [clients.start(f"e{i}") for i in range(3)]
    for episode in episodes:
        episode.begun.result(WAIT)
    played: list[list[int]] = [[], [], []]
    for t in range(6):
        steps = [clients.say(episodes[i], t, shown[i, t]) for i in (2, 0, 1)]
        for i, step in zip((2, 0, 1), steps, strict=True):
            played[i].append(step.answer.result(WAIT).actions["a"])
    assert counted.batches == [3] * 6
    for i in range(3):
        carry, alone = np.zeros((1, policy.carry_size), np.float32), []
        for t in range(6):
            inputs = Inputs(shown[i, t][None], np.ones((1, 0), bool), np.zeros(1, np.int64))
            decision = policy.act(inputs, carry, np.random.default_rng(), explore=False)
            carry = decision.carry
            alone.append(int(decision.actions[0]))
        assert played[i] == alone


def test_a_slot_plays_one_episode_after_another_and_more_episodes_get_more_slots(start: Start) -> None:
    loop, clients, _ = start(network(), slots=1)
    for name in ("first", "second"):
        episode = clients.start(name)
        episode.begun.result(WAIT)
        clients.say(episode, 0, np.zeros(3, np.float32)).answer.result(WAIT)
        clients.say(episode, 1, np.zeros(3, np.float32), ends=True)
    several = [clients.start(f"e{i}") for i in range(4)]
    for episode in several:
        episode.begun.result(WAIT)
    assert loop.open_episodes == 4
    assert len(loop._slots) == 4


def test_weights_are_swapped_between_passes_and_answers_say_which_decided(start: Start) -> None:
    old, new = network(0), network(5)
    loop, clients, _ = start(old, version=3)
    obs = np.random.default_rng(4).uniform(-1, 1, (40, 3)).astype(np.float32)
    episode = clients.start("e")
    versions, actions = [], []
    for t in range(40):
        if t == 20:
            loop.set_weights(4, {"p": new.get_weights()})
        answer = clients.say(episode, t, obs[t]).answer.result(WAIT)
        versions.append(answer.version)
        actions.append(answer.actions["a"])
    assert versions == [3] * 20 + [4] * 20
    assert [slot.decided for slot in loop._slots] == [[]]  # what was answered is forgotten
    inputs = Inputs(obs[20:], np.ones((20, 0), bool), np.zeros(20, np.int64))
    expected = new.act(inputs, np.zeros((20, 0), np.float32), np.random.default_rng(), explore=False)
    assert actions[20:] == expected.actions.tolist()


def test_only_the_slot_whose_row_fails_is_told_of_it() -> None:
    policy = Counted(network())
    loop = ActingLoop({"p": policy}, max_wait_ms=60_000.0)
    clients = Clients(loop)
    failures: dict[str, BaseException] = {}
    failed = threading.Event()

    def note(name: str) -> Callable[[BaseException], None]:
        def told(error: BaseException) -> None:
            failures[name] = error
            failed.set()

        return told

    for i in range(3):
        loop.spawn(echo_body(loop, GreenletLine(loop, clients)), note(f"slot_{i}"), f"slot_{i}")
    loop.start()
    episodes = [clients.start(f"e{i}") for i in range(3)]
    for episode in episodes:
        episode.begun.result(WAIT)
    shown = [np.zeros(3, np.float32), np.full(3, 5.0, np.float32), np.zeros(3, np.float32)]
    steps = [clients.say(episode, 0, obs) for episode, obs in zip(episodes, shown, strict=True)]
    assert steps[0].answer.result(WAIT).actions == steps[2].answer.result(WAIT).actions
    assert failed.wait(WAIT)
    assert len(failures) == 1
    assert "nobody can act on" in str(next(iter(failures.values())))
    assert loop.running
    loop.stop()


def test_the_end_of_the_thread_is_told_to_all_slots_and_to_the_owner() -> None:
    loop = ActingLoop({"p": Counted(network())})
    clients = Clients(loop)
    told: list[BaseException] = []
    owner: Future[BaseException] = Future()
    loop.on_failure = owner.set_result
    loop.spawn(echo_body(loop, GreenletLine(loop, clients)), told.append)
    loop.start()
    clients.start("e").begun.result(WAIT)

    def broken() -> None:
        raise MemoryError("nothing is left")

    loop.call(broken)
    error = owner.result(WAIT)
    assert isinstance(error, UserError)
    assert "MemoryError: nothing is left" in str(error)
    assert told == [error]
    assert not loop.running
    assert isinstance(loop.failure, MemoryError)


def test_messages_before_their_turn_do_not_wake_a_slot_that_waits_for_a_decision(start: Start) -> None:
    _, clients, _ = start(network(), max_wait_ms=50.0)
    waiting = clients.start("idle")
    episode = clients.start("e")
    waiting.begun.result(WAIT)
    episode.begun.result(WAIT)
    obs = np.zeros(3, np.float32)
    steps = [clients.say(episode, 0, obs), clients.say(episode, 1, obs), clients.say(episode, 2, obs)]
    answers: list[Mapping[str, Any]] = [step.answer.result(WAIT).actions for step in steps]
    assert answers[0] == answers[1] == answers[2]


def test_slots_that_cannot_even_begin_end_the_loop_instead_of_being_made_for_ever() -> None:
    loop = ActingLoop({"p": Counted(network())})
    owner: Future[BaseException] = Future()
    loop.on_failure = owner.set_result
    made: list[BaseException] = []

    def unable() -> None:
        raise ValueError("no such wrapper")

    loop.grow = lambda: loop.spawn(unable, made.append)
    loop.start()
    loop.offer(ToldEpisode("e"))
    assert "no such wrapper" in str(owner.result(WAIT))
    assert [str(error) for error in made] == ["no such wrapper"]


def test_a_loop_in_which_a_request_waits_for_others_can_be_stopped_at_once(start: Start) -> None:
    loop, clients, counted = start(network(), max_wait_ms=600_000.0)
    thinking, quick = clients.start("thinking"), clients.start("quick")
    thinking.begun.result(WAIT)
    quick.begun.result(WAIT)
    clients.say(quick, 0, np.zeros(3, np.float32))
    loop.stop(WAIT)
    assert not loop.running
    assert not counted.batches
