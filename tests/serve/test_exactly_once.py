"""Networks and processes that do their worst: every step is counted once, in order, and answered in the same way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from marl.serve.hub import Journal, Refused
from tests.serve.by_hand import settled
from tests.serve.slots import Killed, MortalJournal, Player, World


def players_of(random: Random, short: bool = False) -> list[Player]:
    """Two clients of their own and two that share episodes."""
    shortest, longest = (1, 2) if short else (0, 5)
    games = [(f"shared {i}", random.randint(shortest, longest), 2) for i in range(1 if short else 2)]
    players = [Player("one", "a", games, random), Player("two", "b", games, random)]
    for name in ("three", "four")[: 1 if short else 2]:
        own = [(f"{name} {i}", random.randint(shortest, longest), 1) for i in range(2)]
        players.append(Player(name, "c", own, random))
    for one, two in zip(*[player.script for player in players[:2]], strict=True):
        # Parties report the same steps; both act or both end.
        assert (one[0] == "end") == (two[0] == "end")
    return players


async def do_something(world: World, random: Random, folder: Path) -> None:
    player = random.choice(world.players)
    what = random.choices(
        ["next", "again", "ahead", "other", "play", "save", "restart"], [30, 15, 5, 5, 40, 3, 3]
    )[0]  # fmt: skip
    if what == "next" and not player.done:
        world.send(player, player.at)
    elif what == "again" and player.at:
        world.send(player, random.randrange(player.at))
    elif what == "ahead" and player.at + 2 < len(player.script):
        await ahead(world, player)
    elif what == "other" and player.at:
        await with_other_content(world, player, random.randrange(player.at))
    elif what == "play":
        world.stage.play(random.choice(world.stage.slots))
    elif what == "save":
        world.save()
    elif what == "restart":
        await world.restart(Journal(folder))
    if random.random() < 0.5:
        await settled()
        await world.collect()


async def ahead(world: World, player: Player) -> None:
    """The next message may have been answered without the client's knowing it; the one after it was never sent."""
    kind, message = player.script[player.at + 2]
    before = world.hub.counters.accepted
    if kind == "start":  # another episode may begin at any time
        return
    with pytest.raises(Refused) as refused:
        await world.hub.answer(kind, {**message, "session": player.session})
    assert refused.value.code in ("out_of_order", "unknown_episode")
    assert world.hub.counters.accepted == before


async def with_other_content(world: World, player: Player, number: int) -> None:
    kind, message = player.script[number]
    if kind == "start":
        return
    with pytest.raises(Refused) as refused:
        await world.hub.answer(kind, {**message, "agents": {}, "session": player.session})
    assert refused.value.code in ("conflict", "too_old")


@pytest.mark.parametrize("seed", range(30))
def test_a_random_network_changes_nothing(seed: int, tmp_path: Path) -> None:
    async def play() -> None:
        random = Random(seed)
        world = World(tmp_path, players_of(random), slots=random.randint(1, 3))
        await world.start(Journal(tmp_path))
        for _ in range(150):
            await do_something(world, random, tmp_path)
        await world.finish()
        world.check()

    asyncio.run(play())


@pytest.mark.parametrize("how", ["before", "half", "after"])
@pytest.mark.parametrize("seed", range(1, 2))
def test_a_process_may_end_at_every_line_of_its_journal(how: str, seed: int, tmp_path: Path) -> None:
    """A run is killed at line 1, then again at line 2 of a new run, and so on; each goes on and comes to the same end."""

    async def play(dies_at: int) -> bool:
        folder = tmp_path / str(dies_at)
        world = World(folder, players_of(Random(seed), short=True), slots=2)
        died = False
        try:
            await world.start(MortalJournal(folder, dies_at, how))
            for i in range(60):
                world.send_all()
                await settled()
                world.stage.play(world.stage.slots[i % 2])
                if i % 10 == 9:
                    world.save()
                await settled()
                await world.collect()
        except Killed:
            died = True
            await settled()  # what was sent has left the process
            await world.restart(Journal(folder))
        await world.finish()
        world.check()
        return died

    dies_at = 1
    while asyncio.run(play(dies_at)):
        dies_at += 1
    assert dies_at > 20
