"""A stage with slots that can be saved and restored, as a trainer's workers are, and a network that does its worst."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from random import Random
from typing import Any

from marl.envs.external.steps import Answer, Step
from marl.serve.hub import Hub, Journal, Limits, OpenEpisode, Refused, Stage
from tests.serve.by_hand import BOX, TWO, contract, settled

SPACES = {"observation_space": BOX, "action_space": TWO}


class Killed(BaseException):
    """The process ends here."""


class MortalJournal(Journal):
    """Ends the process at a given line: before it is written, in the middle of it, or after it."""

    def __init__(self, folder: Path, dies_at: int | None = None, how: str = "before") -> None:
        super().__init__(folder)
        self.written, self.dies_at, self.how = 0, dies_at, how

    def append(self, line: Any) -> None:
        self.written += 1
        dies = self.written == self.dies_at
        is_dead = self.dies_at is not None and self.written > self.dies_at
        if is_dead or (dies and self.how == "before"):
            raise Killed
        size = self._size
        super().append(line)
        if dies and self.how == "half":
            with self.path(self.segment).open("r+b") as file:
                file.truncate((size + self._size) // 2)
        if dies:
            raise Killed


class Slot:
    """Plays one episode after the other; what it does depends on all that it has seen in this one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.episode: str | None = None
        self.t = -1  # of the step that it has taken
        self.answered = True
        self.memory = 0.0
        self.over = True
        self.played: list[tuple[Any, ...]] = []  # the truth that is compared in the end


class SlotStage(Stage):
    """Acts step by step when it is told to; ``saved`` is its checkpoint."""

    def __init__(self, names: tuple[str, ...], slots: int) -> None:
        self.contract = contract(*names)
        self.training, self.version = True, 0
        self.slots = [Slot(f"slot {i}") for i in range(slots)]
        self.wanted: list[OpenEpisode] = []
        self.hub: Hub

    def policies(self) -> list[dict[str, Any]]:
        return []

    def begin(self, episode: OpenEpisode) -> None:
        self.wanted.append(episode)

    def arrived(self, episode: OpenEpisode) -> None:
        pass

    def saved(self) -> list[Slot]:
        return copy.deepcopy(self.slots)

    def play(self, slot: Slot) -> bool:
        """One thing that this slot can do now; False: it has to wait."""
        if slot.over:
            return self._next_episode(slot)
        assert slot.episode is not None
        episode = self.hub.episode(slot.episode)
        assert episode is not None
        if not slot.answered:
            step = episode.take(slot.t)
            assert step is not None
            self.hub.answered(episode, step, Answer(self._chosen(slot, step), self.version))
            slot.answered = True
            return True
        step = episode.take(slot.t + 1)
        if step is None:
            return False
        self._see(slot, episode, step)
        return True

    def _next_episode(self, slot: Slot) -> bool:
        episode = self.hub.next_bound(slot.name, slot.episode)
        if episode is None and self.wanted:
            episode = self.wanted.pop(0)
        if episode is None:
            return False
        self.hub.began(episode, len(episode.name) * 7, slot.name)
        slot.episode, slot.t, slot.memory, slot.over, slot.answered = episode.id, -1, 0.0, False, True
        return True

    def _see(self, slot: Slot, episode: OpenEpisode, step: Step) -> None:
        slot.t, slot.answered, slot.over = step.t, step.ends, step.ends
        seen = []
        for name, report in sorted(step.agents.items()):
            obs = None if report.obs is None else report.obs.tolist()
            seen.append((name, obs, report.reward, report.terminated))
            slot.memory += report.reward + sum(obs or [])
        slot.played.append((episode.name, step.t, tuple(map(repr, seen)), step.ends))

    def _chosen(self, slot: Slot, step: Step) -> dict[str, int]:
        return {name: round(slot.memory * 8 + i) % 2 for i, name in enumerate(sorted(step.agents))}


class Player:
    """One client and all that it will ever send; it sends a message when the one before was answered."""

    def __init__(self, name: str, agent: str, episodes: list[tuple[str, int, int]], random: Random) -> None:
        self.name, self.agent = name, agent
        self.script: list[tuple[str, dict[str, Any]]] = []
        for episode, length, parties in episodes:
            self.script.append(("start", {"episode": episode, "parties": parties}))
            for t in range(length + 1):
                report = {"obs": [random.randint(-8, 8) / 4, t / 64]}
                if t:
                    report["reward"] = random.randint(-4, 4) / 2
                kind = "act" if t < length else "end"
                message = {"episode": episode, "t": t, "agents": {agent: report}}
                if kind == "act" and random.random() < 0.2:
                    kind, message["actions"] = "log", {agent: random.randint(0, 1)}
                self.script.append((kind, message))
        self.answers: list[Any] = [None] * len(self.script)
        self.at = 0  # the message that it sends next
        self.session = ""

    @property
    def done(self) -> bool:
        return self.at == len(self.script)

    async def connect(self, hub: Hub) -> None:
        hello = {"protocol": "marl/1", "name": self.name, "agents": {self.agent: SPACES}}
        welcome = await hub.answer("hello", hello)
        assert self.session in ("", welcome["session"])
        self.session = welcome["session"]

    async def send(self, hub: Hub, number: int) -> None:
        """Send a message, whether for the first time or again; the answer is always the same."""
        kind, message = self.script[number]
        answer = await hub.answer(kind, {**message, "session": self.session})
        if self.answers[number] is None:
            self.answers[number] = answer
            if self.at == number:
                self.at += 1
        assert self.answers[number] == answer


def truth_of(players: list[Player]) -> dict[tuple[str, int], tuple[Any, ...]]:
    """Each step once, as the scripts tell it."""
    steps: dict[tuple[str, int], dict[str, Any]] = {}
    ends = set()
    for player in players:
        for kind, message in player.script:
            if kind != "start":
                key = (message["episode"], message["t"])
                steps.setdefault(key, {}).update(message["agents"])
                if kind == "end":
                    ends.add(key)
    told = {}
    for key, agents in steps.items():
        seen = [(name, one["obs"], float(one.get("reward", 0.0)), False) for name, one in sorted(agents.items())]
        told[key] = (*key, tuple(map(repr, seen)), key in ends)
    return told


class World:
    """Clients, a hub with a journal and a stage, and restarts from the last checkpoint."""

    def __init__(self, folder: Path, players: list[Player], slots: int) -> None:
        self.folder, self.players, self.number_of_slots = folder, players, slots
        self.names = tuple(sorted({player.agent for player in players}))
        self.checkpoint: tuple[int | None, list[Slot] | None] = (None, None)
        self.tasks: list[asyncio.Task[None]] = []
        self.restarts = 0

    async def start(self, journal: Journal) -> None:
        stage = self.stage = SlotStage(self.names, self.number_of_slots)
        stage.version = self.restarts  # a live answer is another one after a restart; one that was given must not be
        segment, slots = self.checkpoint
        if slots is not None:
            stage.slots = copy.deepcopy(slots)
        self.hub = stage.hub = Hub(stage, Limits(), journal)
        self.hub.recover(segment)
        for player in self.players:
            await player.connect(self.hub)

    async def restart(self, journal: Journal) -> None:
        """The process is gone; clients notice and connect again."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks, self.restarts = [], self.restarts + 1
        self.hub.journal.close()
        await self.start(journal)

    def save(self) -> None:
        slots = self.stage.saved()
        self.checkpoint = (self.hub.mark(), slots)
        assert self.hub.journal is not None
        self.hub.journal.forget(self.checkpoint[0])

    def send(self, player: Player, number: int) -> None:
        self.tasks.append(asyncio.ensure_future(player.send(self.hub, number)))

    async def finish(self) -> None:
        """Everybody sends what is left, again and again, until all is answered."""
        for _ in range(300):
            if all(player.done for player in self.players) and all(slot.over for slot in self.stage.slots):
                await asyncio.gather(*self.tasks)
                await self.send_everything_again()
                return
            self.send_all()
            await settled()
            for slot in self.stage.slots:
                while self.stage.play(slot):
                    pass
            await settled()
            await self.collect()
        raise AssertionError(f"stuck: {[(player.name, player.at) for player in self.players if not player.done]}")

    async def send_everything_again(self) -> None:
        """What was answered once is answered in the same way for ever; ``Player.send`` compares."""
        for player in self.players:
            for number in range(len(player.script)):
                try:
                    await player.send(self.hub, number)
                except Refused as refused:
                    if refused.code != "too_old":
                        raise

    def send_all(self) -> None:
        for player in self.players:
            if not player.done:
                self.send(player, player.at)

    async def collect(self) -> None:
        """What was answered or refused by now; a refusal that is not one of order is a failure."""
        left = []
        for task in self.tasks:
            if not task.done():
                left.append(task)
                continue
            error = task.exception()
            if isinstance(error, Refused) and error.code in ("out_of_order", "too_old"):
                continue
            if error is not None:
                raise error
        self.tasks = left

    def check(self) -> None:
        """Every step was played once, in order, as it was sent; and the counters say so."""
        truth = truth_of(self.players)
        by_episode: dict[str, list[tuple[Any, ...]]] = {}
        for slot in self.stage.slots:
            for step in slot.played:
                by_episode.setdefault(step[0], []).append(step)
        for episode, steps in by_episode.items():
            expected = [told for (name, _), told in sorted(truth.items()) if name == episode]
            assert steps == expected, episode
        assert by_episode.keys() == {name for name, _ in truth}
        counters = self.hub.counters
        steps_to_answer = sum(not told[-1] for told in truth.values())
        assert (counters.accepted, counters.answered) == (steps_to_answer, steps_to_answer)
        assert counters.begun == counters.ended == len(by_episode)
        assert (counters.pending, counters.open, counters.lost, counters.doubled) == (0, 0, 0, 0)
