"""Figures of ``marl watch``: bytes of the page, time to the first curve, frames and updates per second, memory over time.

    python benchmarks/watch.py                # all but memory; about a minute
    python benchmarks/watch.py --minutes 60   # and an hour of use, with the memory of the server and its processes

It needs Chromium and chromedriver. The server is a process of its own, as a user starts it.
"""

from __future__ import annotations

import argparse
import gzip
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # for the builders of tests

from marl.page.assets import STATIC, files, modules, needed  # noqa: E402
from tests.watch.browser import open_browser, wait_for, wait_until  # noqa: E402
from tests.watch.episode_runs import long_run, two_step_run  # noqa: E402
from tests.watch.many_runs import make_many_runs  # noqa: E402

RUNS, ITERATIONS = 200, 1000
LOOK_EVERY_S = 30.0
VIEWS = (
    "/runs", "/episodes?run=long&episode={episode}", "/episodes?run=two_step&episode={episode}", "/play?run=two_step",
    "/games",
    "/tree?name={game}", "/dynamics", "/explain",
)  # fmt: skip
MODULE_CALL = "const done = arguments[0]; import('{}').then((m) => m.{}).then(done, (e) => done(String(e)))"


@contextmanager
def watching(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """``marl watch`` of a folder: the page with its token, and the process."""
    command = [sys.executable, "-m", "marl.cli", "watch", str(folder), "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    try:
        page = None
        while page is None:
            line = process.stdout.readline()
            assert line, "marl watch has ended"
            page = re.search(r"open (\S+)", line)
        yield page[1], psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)


def opened(driver: Any, page: str, view: str) -> float:
    """Open a view in a new document; the seconds until it is there."""
    driver.get("about:blank")
    began = time.perf_counter()
    driver.get(f"{page}{view}")
    wait_for(driver, "#main[data-ready]")
    return time.perf_counter() - began


# -- figures -------------------------------------------------------------------------------------------------------------


def page_size() -> None:
    everything = [path.read_bytes() for path in STATIC.rglob("*") if path.is_file()]
    squeezed = sum(len(gzip.compress(content, 5)) for content in everything)
    print(f"page: {len(everything)} files, {sum(map(len, everything)):,} bytes, {squeezed:,} gzipped (as it is sent)")
    for view in ("runs", "run", "episodes", "play", "games", "tree", "dynamics", "explain"):
        own = [files()[modules()[name]] for name in needed(view)]
        sent = sum(len(gzip.compress(content, 5)) for content in own)
        print(f"  {view}: {len(own)} modules, {sum(map(len, own)):,} bytes, {sent:,} gzipped")


def first_curve(driver: Any, folder: Path) -> None:
    """With many long runs: from opening the page to a curve that is drawn, with a new server, and once more."""
    make_many_runs(folder, RUNS, ITERATIONS)
    with watching(folder) as (page, _):
        for when in ("first time", "again"):
            driver.get("about:blank")
            began = time.perf_counter()
            driver.get(f"{page}/runs")
            wait_until(driver, "document.querySelectorAll('tbody tr').length > 1", "the table")
            table = time.perf_counter() - began
            wait_until(
                driver,
                "document.querySelector('.u-over') !== null && document.querySelectorAll('.chart-legend button').length > 0",
                "a curve",
            )
            curve = time.perf_counter() - began
            print(
                f"{RUNS} runs of {ITERATIONS} iterations, {when}: table after {table:.2f} s, curve after {curve:.2f} s"
            )


def scrubbing(driver: Any, page: str) -> None:
    opened(driver, page, "/episodes?run=long")
    wait_for(driver, ".scrubber")
    found = driver.execute_async_script(MODULE_CALL.format("marl/parts/scrubber.js", "scrubberRate(5)"))
    print(f"scrubber (traffic, 100 steps): {found['rate']:.1f} frames/s, {found['work']:.2f} ms of work per frame")


def dragging(driver: Any, page: str) -> None:
    for name in ("kuhn_poker", "leduc_poker"):
        opened(driver, page, f"/tree?name={name}")
        found = driver.execute_async_script(MODULE_CALL.format("marl/views/tree.js", "dragBenchmark(5)"))
        rate, work = found["perSecond"], found["millisecondsPerUpdate"]
        print(f"tree of {name} under dragging: {rate:.1f} updates/s, {work:.2f} ms of work per update")


def memory(process: psutil.Process) -> str:
    """MiB of the server and of each process that works for it."""
    sizes = [f"server {process.memory_info().rss / 2**20:.0f}"]
    for child in process.children(recursive=True):
        with_words = " ".join(child.cmdline()[-3:])
        if "resource_tracker" not in with_words:
            sizes.append(f"process {child.memory_info().rss / 2**20:.0f}")
    return ", ".join(sizes)


def use(driver: Any, page: str, process: psutil.Process, minutes: float) -> None:
    """Go through all views again and again, with other episodes and other games each time."""
    began, next_look, rounds = time.monotonic(), 0.0, 0
    while (past := time.monotonic() - began) < 60 * minutes:
        if past >= next_look:
            print(
                f"memory after {past / 60:.1f} min, {rounds} rounds of all views, in MiB: {memory(process)}", flush=True
            )
            next_look += max(LOOK_EVERY_S, 60 * minutes / 20)
        for view in VIEWS:
            opened(driver, page, view.format(episode=rounds % 200, game=("kuhn_poker", "leduc_poker")[rounds % 2]))
        rounds += 1
    print(f"memory at the end, after {rounds} rounds, in MiB: {memory(process)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=0.0, help="how long to use the page and look at the memory")
    minutes = parser.parse_args().minutes
    page_size()
    with tempfile.TemporaryDirectory() as place, open_browser() as driver:
        driver.set_script_timeout(120)
        first_curve(driver, Path(place) / "many")
        few = Path(place) / "few"
        long_run(few)
        two_step_run(few)
        with watching(few) as (page, process):
            scrubbing(driver, page)
            dragging(driver, page)
            if minutes:
                use(driver, page, process, minutes)


if __name__ == "__main__":
    main()
