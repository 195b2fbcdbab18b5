"""A short siege, and that the siege itself notices what it is there to notice."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from siege.canary import Canary
from siege.child import Child, Command, Ended, Limits, run
from siege.damage import DAMAGES
from siege.kills import Victim, _Storm, was_struck
from siege.ledger import CaseResult, Ledger, tally
from siege.mutate import mutate
from siege.strike import Strike
from siege.verdict import complaint, group_of

# A siege forks, and a process in which another test has started Ray's threads must not be forked: so all of these
# tests fork from a new process.
SPAWN = multiprocessing.get_context("spawn")


def besiege(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "siege", "--out", str(folder), "--seed", "1", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.slow
def test_a_short_siege_loses_nothing(tmp_path: Path) -> None:
    besiege(tmp_path, "-n", "8", "--only", "kills", "--victims", "2")
    kinds = ["--only", "corruption", "--only", "forgeries", "--only", "scenarios", "--only", "command lines"]
    besiege(tmp_path, "-n", "20", *kinds, "--preys", "1")
    found = json.loads((tmp_path / "results.json").read_text())["kinds"]
    assert {kind: figures["cases"] for kind, figures in found.items()} == {
        "kills": 8, "corruption": 20, "forgeries": 20, "scenarios": 20, "command lines": 20,
    }  # fmt: skip
    assert sum(figures["lost"] for figures in found.values()) == 0
    assert found["kills"]["tried"] >= 8
    assert found["corruption"]["outcomes"]["damage refused"] >= 3
    assert found["forgeries"]["outcomes"]["refused"] >= 3


def script(folder: Path, text: str) -> Command:
    """A module in the folder, which is the working directory of the child."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "victim_script.py").write_text(text)
    return Command([], module="victim_script")


@dataclass(frozen=True)
class Begin:
    """What the child does first: find its module, then whatever the test wants."""

    folder: Path
    then: Callable[[], object] | None = None

    def __call__(self) -> None:
        sys.path.insert(0, str(self.folder))
        if self.then is not None:
            self.then()


def run_script(
    folder: Path, text: str, at_start: Callable[[], object] | None = None, limits: Limits | None = None
) -> Ended:
    command = script(folder, text)
    with ProcessPoolExecutor(1, SPAWN) as pool:
        return pool.submit(run, command, folder, limits=limits or Limits(), at_start=Begin(folder, at_start)).result()


def test_a_child_tells_its_exit_code_and_what_it_printed(tmp_path: Path) -> None:
    ended = run_script(tmp_path, "import sys; print('hello'); sys.exit(2)")
    assert (ended.code, ended.stdout) == (2, "hello\n")
    assert complaint(ended) == "exit code 2 without a sentence on stderr"


def test_a_traceback_and_a_death_by_signal_are_complaints(tmp_path: Path) -> None:
    assert complaint(run_script(tmp_path / "a", "{}['x']")) == "traceback: siege/child.py:_execute: KeyError: 'x'"
    died = run_script(tmp_path / "b", "import os, signal; os.kill(os.getpid(), signal.SIGUSR2)")
    assert complaint(died) == "died: SIGUSR2"


def test_one_who_ignores_ctrl_c_hangs_and_one_who_obeys_was_only_slow(tmp_path: Path) -> None:
    short = Limits(seconds=0.3, grace=0.5)
    deaf = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
    assert complaint(run_script(tmp_path / "deaf", deaf, limits=short)) == "hang: does not end after two SIGINT"
    polite = "import sys, time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: sys.exit(130)"
    assert complaint(run_script(tmp_path / "polite", polite, limits=short)) is None


@pytest.mark.parametrize(
    "deed",
    [
        "open('../elsewhere', 'w')",
        "import os; os.system('true')",
        "import subprocess; subprocess.run(['true'])",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('127.0.0.1', 9))",
        "import shutil; shutil.rmtree('../gone', ignore_errors=True)",
    ],
)
def test_the_canary_hears_what_a_file_must_not_cause(deed: str, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    ended = run_script(inside, deed, at_start=Canary(inside).arm)
    assert str(complaint(ended)).startswith("canary")
    honest = run_script(inside / "more", "open('here', 'w')", at_start=Canary(inside).arm)
    assert honest.alarms == ()


def test_a_strike_ends_the_process_just_before_the_chosen_file_operation(tmp_path: Path) -> None:
    place = tmp_path / "place"
    text = f"from pathlib import Path\nfor i in range(5): (Path({str(place)!r}) / str(i)).write_text('x')"
    place.mkdir()
    ended = run_script(tmp_path / "child", text, at_start=Strike(place, 4).arm)
    assert ended.code == -signal.SIGKILL
    assert sorted(entry.name for entry in place.iterdir()) == ["0", "1", "2"]
    counter = tmp_path / "count"
    assert run_script(tmp_path / "child", text, at_start=partial(Strike(place).arm, counter)).code == 0
    assert counter.read_text() == "5"


def start_and_leave(command: Command, folder: Path, told: Path) -> None:
    """A siege that dies with a child at work."""
    sys.path.insert(0, str(folder))
    child = Child(command, folder)
    told.write_text(str(child.pid))
    child.wait(0.3)
    os._exit(0)


def test_children_die_with_the_siege(tmp_path: Path) -> None:
    folder = tmp_path / "sleeper"
    command = script(folder, "import time; time.sleep(60)")
    middle = SPAWN.Process(target=start_and_leave, args=(command, folder, tmp_path / "pid"))
    middle.start()
    middle.join()
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().split()[2] == "Z":
            return
        os.sched_yield()
        signal.sigtimedwait([], 0.02)
    pytest.fail("the child is still there")


def test_a_run_that_ends_by_itself_as_it_is_killed_was_not_struck() -> None:
    assert was_struck("kill -9", Ended(-signal.SIGKILL, "", "", 1.0))
    assert not was_struck("kill -9", Ended(0, "", "", 1.0))
    assert was_struck("SIGTERM", Ended(0, "", "", 1.0))


class Unlucky(_Storm):
    """A run that fails by itself, once, before anybody strikes it."""

    def _live(self, manner: str | None) -> tuple[Ended, bool]:
        return Ended(1, "", "Traceback (most recent call last)", 1.0), False


def test_a_run_that_fails_before_it_is_struck_is_lost(tmp_path: Path) -> None:
    victim = Victim(tmp_path / "victim.yaml", {}, 1.0, 10)
    told = Unlucky(victim, random.Random(1), tmp_path).rage()
    assert str(told).startswith("before it was struck: traceback")


def test_every_damage_changes_the_file(tmp_path: Path) -> None:
    for number, (name, damage) in enumerate(DAMAGES.items()):
        folder = tmp_path / f"{number}" / "inside"
        folder.mkdir(parents=True)
        file = folder / "a.json"
        file.write_bytes(bytes(range(1, 200)))
        (folder / "b.json").write_bytes(b"other")
        damage(file, random.Random(3))
        assert not file.is_file() or file.is_symlink() or file.read_bytes() != bytes(range(1, 200)), name


def test_mutations_follow_from_the_seed(tmp_path: Path) -> None:
    def changed(seed: int) -> tuple[list[str], str]:
        tree = {"a": [1, 2, {"b": "text"}], "c": {"d": None}}
        return mutate(tree, random.Random(seed), 3), repr(tree)

    assert changed(1) == changed(1)
    assert len({changed(seed)[1] for seed in range(20)}) > 15


def test_a_ledger_goes_on_and_forgets_results_of_other_code(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "results.json", 0, "code")
    ledger.add(CaseResult("kills", 0, "ppo", tried=2))
    ledger.add(CaseResult("kills", 2, "ppo", "hang", tried=3))
    again = Ledger(tmp_path / "results.json", 0, "code")
    assert again.missing("kills", 4) == [1, 3]
    assert (tally(again.of("kills")).tried, tally(again.of("kills")).lost) == (5, 1)
    assert Ledger(tmp_path / "results.json", 0, "other code").missing("kills", 2) == [0, 1]
    assert Ledger(tmp_path / "results.json", 1, "code").missing("kills", 2) == [0, 1]


def test_equal_failures_are_one_group() -> None:
    one, other = ("traceback: marl/a.py:f: KeyError: 'x' at 17", "traceback: marl/a.py:f: KeyError: 'yy' at 3")
    assert group_of(one) == group_of(other)
    assert group_of(one) != group_of("traceback: marl/a.py:g: KeyError: 'x' at 17")
