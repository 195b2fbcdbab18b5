"""The journal's files: what a restart reads from them, and which it refuses by name."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.envs.external.steps import Answer
from marl.errors import JournalError, StorageError
from marl.serve.hub import Hub, Journal, Limits
from tests.serve.by_hand import BOX, TWO, Client, HandStage, connected, contract, new_hub, refusal, settled


def journaled(folder: Path, segment: int | None = None, **keys: Any) -> tuple[Hub, HandStage]:
    hub, stage = new_hub(journal=Journal(folder), **keys)
    hub.recover(segment)
    return hub, stage


async def one_act(folder: Path, name: str = "one") -> tuple[Client, dict[str, Any]]:
    """A server that was killed after one answered act."""
    hub, _ = journaled(folder)
    client = await connected(hub, name=name)
    await client.start()
    return client, await client.act(0, 0.1)


def test_a_journal_gives_back_lines_in_their_order_and_goes_on(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.mark([{"kind": "old"}]) == 0
    for i in range(3):
        journal.append({"kind": "line", "i": i, "text": "ü\n\ud800", "number": 0.1 + 0.2})
    journal.close()
    again = Journal(tmp_path)
    lines = list(again.read())
    assert [line["kind"] for line in lines] == ["old", "line", "line", "line"]
    assert lines[1] == {"kind": "line", "i": 0, "text": "ü\n\ud800", "number": 0.1 + 0.2}
    again.append({"kind": "more"})
    assert [line["kind"] for line in Journal(tmp_path).read()] == ["old", "line", "line", "line", "more"]


def test_a_mark_begins_a_segment_with_its_snapshot_and_older_ones_can_go(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for i in range(3):
        assert journal.mark([{"kind": f"snapshot {i}"}]) == i
        journal.append({"kind": f"line {i}"})
    kinds = [line["kind"] for line in Journal(tmp_path).read(1)]
    assert kinds == ["snapshot 1", "line 1", "line 2"]  # of later segments only what came after their snapshot
    journal.forget(before=2)
    assert journal.segments() == [2]
    journal.forget(before=9)  # the one that is written to stays
    assert journal.segments() == [2]
    with pytest.raises(JournalError, match=r"segment_1\.jsonl is missing"):
        list(Journal(tmp_path).read(1))
    with pytest.raises(JournalError, match=r"segment_4\.jsonl is missing"):
        list(Journal(tmp_path / "nothing").read(4))


def test_a_line_that_was_half_written_is_dropped_at_every_length(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.mark([])
    journal.append({"kind": "kept"})
    whole = journal.path(0).read_bytes()
    journal.append({"kind": "half"})
    longer = journal.path(0).read_bytes()
    for length in range(len(whole), len(longer)):
        journal.path(0).write_bytes(longer[:length])
        again = Journal(tmp_path)
        assert [line["kind"] for line in again.read()] == ["kept"]
        again.append({"kind": "new"})
        again.close()
        assert [line["kind"] for line in Journal(tmp_path).read()] == ["kept", "new"]


def test_a_damaged_or_foreign_file_is_refused_by_name(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.mark([{"kind": "a"}])
    for i in range(3):
        journal.append({"kind": "line", "i": i})
    path = journal.path(0)
    good = path.read_bytes()
    lines = good.splitlines(keepends=True)
    damaged = {
        "changed": good.replace(b'"i":1', b'"i":7'),
        "a line is gone": b"".join(lines[:2] + lines[3:]),
        "lines changed places": b"".join([*lines[:2], lines[3], lines[2], *lines[4:]]),
        "cut within": good.replace(lines[2], lines[2][:10] + b"\n"),
        "zeros": b"\0" * 100 + b"\n",
        "text": b"hello\n",
        "pickle": b"\x80\x04\x95.\n",
        "empty": b"",
        "no end of its first line": lines[0][:-5],
        "another list": b"[1, 2]\n",
        "without its first line": b"".join(lines[1:]),
    }
    for what, content in damaged.items():
        path.write_bytes(content)
        with pytest.raises(JournalError, match=r"segment_0\.jsonl"):
            list(Journal(tmp_path).read())
        assert path.read_bytes() == content, what
    path.write_bytes(good)
    assert len(list(Journal(tmp_path).read())) == 4


def test_a_segment_under_another_number_or_of_another_format_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    journal.mark([])
    os.rename(journal.path(0), journal.path(3))
    with pytest.raises(JournalError, match="is not segment 3"):
        list(Journal(tmp_path).read())
    monkeypatch.setattr("marl.serve.journal.FORMAT", 9)
    Journal(tmp_path / "new").mark([])
    monkeypatch.undo()
    with pytest.raises(JournalError, match="has the format 9"):
        list(Journal(tmp_path / "new").read())


def test_a_half_line_before_the_last_segment_and_a_missing_segment_are_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for _ in range(3):
        journal.mark([])
        journal.append({"kind": "line"})
    whole = journal.path(0).read_bytes()
    journal.path(0).write_bytes(whole[:-4])
    with pytest.raises(JournalError, match=r"line 2 of .*segment_0"):
        list(Journal(tmp_path).read())
    journal.path(0).write_bytes(whole)
    journal.path(1).unlink()
    with pytest.raises(JournalError, match=r"segment_1\.jsonl is missing, and"):
        list(Journal(tmp_path).read())


def test_a_full_disk_leaves_no_part_of_a_line_and_the_message_may_be_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        hub, _ = journaled(tmp_path)
        client = await connected(hub)
        await client.start()
        before = hub.journal.path(0).read_bytes()
        write = os.write

        def full(file: int, data: Any) -> int:
            if len(data) < 10:
                raise OSError(28, "No space left on device")
            return write(file, data[: len(data) // 2])

        with monkeypatch.context() as patched:
            patched.setattr("marl.serve.journal.os.write", full)
            refused = await refusal(client.act(0, 0.1))
        assert (refused.code, refused.status) == ("storage", 507)
        assert hub.journal.path(0).read_bytes() == before
        assert (await client.act(0, 0.1))["t"] == 0
        assert hub.counters.accepted == 1
        assert len(list(Journal(tmp_path).read())) > 3

    asyncio.run(play())


def test_a_restarted_server_knows_its_sessions_and_answers_as_before(tmp_path: Path) -> None:
    async def play() -> None:
        client, first = await one_act(tmp_path)
        hub, stage = journaled(tmp_path, at_once=False)
        stage.version = 99
        welcome = await hub.answer("hello", {"protocol": "marl/1", "name": "one"})
        assert welcome["session"] == client.session
        assert welcome["open"][0]["actions"] == [{"a": 1}]
        client.hub = hub
        assert await client.act(0, 0.1) == first
        assert (await client.start())["seed"] == 1
        assert (await refusal(client.act(0, 0.3))).code == "conflict"
        assert (await refusal(client.act(2))).expected == 1
        assert (hub.counters.accepted, hub.counters.answered, hub.counters.repeated) == (1, 1, 2)

    asyncio.run(play())


def test_a_step_that_was_taken_and_not_answered_waits_for_its_player_after_a_restart(tmp_path: Path) -> None:
    async def play() -> None:
        hub, stage = journaled(tmp_path, at_once=False)
        client = await connected(hub)
        started = asyncio.create_task(client.start())
        await settled()
        stage.begin_all()
        await started
        lost = asyncio.create_task(client.act(0, 0.1))
        await settled()
        lost.cancel()
        hub, stage = new_hub(journal=Journal(tmp_path), at_once=False)
        slots = hub.recover()
        [episode] = slots["slot 1"]
        assert hub.counters.pending == 1
        client.hub = hub
        again = asyncio.create_task(client.act(0, 0.1))
        await settled()
        stage.playing.append(episode)
        stage.play()
        assert (await again)["actions"] == {"a": 1}
        assert (hub.counters.accepted, hub.counters.answered, hub.counters.lost) == (1, 1, 0)

    asyncio.run(play())


def test_an_episode_that_nobody_had_begun_is_offered_again(tmp_path: Path) -> None:
    async def play() -> None:
        hub, _ = journaled(tmp_path, at_once=False)
        client = await connected(hub)
        lost = asyncio.create_task(client.start())
        await settled()
        lost.cancel()
        hub, stage = journaled(tmp_path, at_once=False)
        assert [episode.name for episode in stage.wanted] == ["e"]
        client.hub = hub
        again = asyncio.create_task(client.start())
        await settled()
        stage.begin_all()
        assert (await again)["seed"] == 1
        assert len(stage.playing) == 1

    asyncio.run(play())


def test_steps_since_a_mark_are_played_again_and_have_to_come_to_the_same_actions(tmp_path: Path) -> None:
    async def play() -> None:
        hub, stage = journaled(tmp_path)
        client = await connected(hub)
        await client.start()
        await client.act(0, 0.1)
        segment = hub.mark()
        for t in (1, 2):
            await client.act(t, 0.1 * t, reward=1)
        hub, _ = journaled(tmp_path, segment, at_once=False)
        [id] = stage.played
        episode = hub.episode(id)
        for t in (1, 2):
            step = episode.take(t)
            recorded = hub.recorded(episode, t)
            assert recorded.actions == {"a": t % 2}
            if t == 1:
                with pytest.raises(JournalError, match="was answered by"):
                    hub.answered(episode, step, Answer({"a": 0}))
            hub.answered(episode, step, recorded)
        assert hub.counters.replayed == 2
        assert hub.recorded(episode, 2) is None
        with pytest.raises(JournalError, match="twice"):
            hub.answered(episode, episode.take(2), Answer({"a": 0}))
        assert hub.counters.doubled == 1
        with pytest.raises(JournalError, match="slot"):
            hub.began(episode, 1, "slot 2")
        with pytest.raises(JournalError, match="seed"):
            hub.began(episode, 2, "slot 1")

    asyncio.run(play())


def test_a_slot_plays_its_episodes_again_in_their_order(tmp_path: Path) -> None:
    async def play() -> None:
        hub, stage = journaled(tmp_path, at_once=False)
        client = await connected(hub)
        for i in range(4):
            started = asyncio.create_task(client.start(f"e{i}"))
            await settled()
            hub.began(stage.wanted.pop(), i, f"slot {i % 2}")
            await started
            await client.send("end", 0, episode=f"e{i}")
        hub, _ = journaled(tmp_path, at_once=False)
        first = hub.next_bound("slot 1", None)
        assert (first.name, first.seed) == ("e1", 1)
        assert hub.next_bound("slot 1", None) is first
        second = hub.next_bound("slot 1", first.id)
        assert (second.name, second.take(0).ends) == ("e3", True)
        assert hub.next_bound("slot 1", second.id) is None
        assert hub.next_bound("slot 0", None).name == "e0"
        assert hub.next_bound("slot 7", None) is None

    asyncio.run(play())


def test_arrays_that_came_as_bytes_and_odd_messages_come_back_as_they_were(tmp_path: Path) -> None:
    async def play() -> None:
        hub, _ = journaled(tmp_path)
        client = await connected(hub, name="ü\ud800")
        await client.start("ü")
        packed = {"__nd__": True, "dtype": "float32", "shape": [2], "data": np.array([0.1, 0], np.float32).tobytes()}
        info = {"bytes": "AAAA", "__nd__": True, "kind": "end", "data": [None, {"bytes": 1}]}
        messages = [{"a": {"obs": packed, "info": info}}, {"a": {"obs": [0.2, 0], "info": info, "reward": -0.0}}]
        answers = [await client.send("act", t, agents, "ü") for t, agents in enumerate(messages)]
        hub, _ = journaled(tmp_path)
        client.hub = hub
        assert [await client.send("act", t, agents, "ü") for t, agents in enumerate(messages)] == answers
        [episode] = hub.desk.episodes.values()
        assert episode.take(0).agents["a"].obs.tolist() == [np.float32(0.1), 0]
        assert episode.take(0).agents["a"].info == info

    asyncio.run(play())


def test_what_was_said_first_and_what_ended_in_silence_outlive_a_restart(tmp_path: Path) -> None:
    async def play() -> None:
        now = 0.0
        hub, stage = new_hub(journal=Journal(tmp_path), clock=lambda: now, episode_timeout_s=10, session_timeout_s=20)
        stage.contract = None
        hub.recover()
        client = await connected(hub, agents={"a": {"observation_space": BOX, "action_space": TWO}}, state_size=1)
        other = await connected(hub, name="gone")
        await client.start()
        now = 15.0
        await client.connect_again()
        hub.sweep()
        now = 30.0
        hub.sweep()
        for marked in (False, True):
            if marked:
                hub.mark()
            hub, stage = new_hub(journal=Journal(tmp_path), at_once=False)
            stage.contract = None
            hub.recover()
            assert stage.contract.state_size == 1
            client.hub = other.hub = hub
            refused = await refusal(client.act(0))
            assert (refused.code, "silent" in str(refused)) == ("ended", True)
            assert (await refusal(other.start())).code == "unknown_session"
            [episode] = hub.desk.bindings["slot 1"]
            assert episode.take(0).ends
            assert hub.counters.abandoned == 1

    asyncio.run(play())


def test_a_journal_of_other_agents_is_refused(tmp_path: Path) -> None:
    asyncio.run(one_act(tmp_path))
    with pytest.raises(JournalError, match="other agents or spaces"):
        journaled(tmp_path, given=contract("a", "b"))


def test_a_line_that_cannot_be_is_refused(tmp_path: Path) -> None:
    for number, line in enumerate(
        (
            {"kind": "dance"},
            {"kind": "act", "episode": "nobody's", "session": "x", "t": 0, "content": {}},
            {"kind": "start", "session": "x", "episode": "e", "training": True, "parties": 1},
            {"kind": "bind"},
            {"kind": "episode", "episode": 3},
            {"kind": "session"},
        )
    ):
        folder = tmp_path / str(number)
        journal = Journal(folder)
        journal.mark([])
        journal.append(line)
        journal.close()
        with pytest.raises(JournalError, match="cannot be"):
            journaled(folder)


def test_a_hub_without_a_journal_says_so() -> None:
    hub, _ = new_hub()
    with pytest.raises(JournalError, match="no journal"):
        hub.mark()
    with pytest.raises(JournalError, match="no journal"):
        hub.recover()


def test_a_place_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    hub = Hub(HandStage(contract()), Limits(), Journal(tmp_path / "file"))
    with pytest.raises(StorageError):
        hub.recover()


@pytest.mark.parametrize("marked", [False, True])
def test_an_episode_that_its_player_left_is_left_again_after_a_restart(marked: bool, tmp_path: Path) -> None:
    async def play() -> None:
        hub, stage = journaled(tmp_path, at_once=False)
        client = await connected(hub)
        started = asyncio.create_task(client.start())
        await settled()
        stage.begin_all()
        await started
        waiting = asyncio.create_task(client.act(0, 0.1))
        await settled()
        [episode] = stage.playing
        hub.left(episode, episode.take(0), "it was long enough")
        told = await waiting
        for restart in range(2):
            hub, _ = journaled(tmp_path, at_once=False)
            if marked and not restart:
                segment = hub.mark()
                hub, _ = journaled(tmp_path, segment, at_once=False)
            client.hub = hub
            assert await client.act(0, 0.1) == told
            again = hub.next_bound("slot 1", None)
            assert not again.take(0).ends
            hub.left(again, again.take(0), "it was long enough")
            assert (hub.counters.replayed, hub.counters.ended, hub.counters.lost) == (1, 1, 0)

    asyncio.run(play())


def test_steps_of_an_episode_that_was_given_up_stay_dropped_after_a_restart(tmp_path: Path) -> None:
    async def play() -> None:
        hub, stage = journaled(tmp_path, at_once=False)
        client = await connected(hub)
        started = asyncio.create_task(client.start())
        await settled()
        stage.begin_all()
        await started
        waiting = asyncio.create_task(client.act(0, 0.1))
        await settled()
        hub.failed(stage.playing[0], ValueError("no such move"))
        assert (await refusal(waiting)).code == "episode_failed"
        for marked in (False, True):
            if marked:
                hub.mark()
            hub, _ = journaled(tmp_path, at_once=False)
            client.hub = hub
            assert (await refusal(client.act(0, 0.1))).code == "ended"
            assert (hub.counters.pending, hub.counters.dropped, hub.counters.lost) == (0, 1, 0)

    asyncio.run(play())


def test_where_nobody_plays_again_open_episodes_are_over_and_their_clients_are_told(tmp_path: Path) -> None:
    async def before() -> Client:
        hub, stage = journaled(tmp_path, at_once=False)
        client = await connected(hub, name="one")
        starting = asyncio.ensure_future(client.start())
        await settled()
        stage.begin_all()
        await starting
        asking = asyncio.ensure_future(client.act(0, 0.1))
        await settled()
        stage.play()
        await asking
        waiting = [asyncio.ensure_future(client.act(1, 0.2)), asyncio.ensure_future(client.start("later"))]
        await settled()
        for one in waiting:
            one.cancel()
        return client

    async def after(client: Client) -> None:
        hub, stage = new_hub(journal=Journal(tmp_path), at_once=False)
        hub.recover(play_again=False)
        client.hub = hub
        assert (await client.act(0, 0.1))["actions"] == {"a": 1}
        for t in (1, 2):
            told = await asyncio.wait_for(refusal(client.act(t, 0.2)), 60)
            assert (told.code, told.status) == ("ended", 410)
            assert "started again" in str(told)
        assert [episode.name for episode in stage.wanted] == ["later"]  # nobody had begun it
        assert hub.counters.pending == hub.counters.lost == 0
        assert not hub.desk.bindings

    client = asyncio.run(before())
    asyncio.run(after(client))
    asyncio.run(after(client))  # and they stay so
