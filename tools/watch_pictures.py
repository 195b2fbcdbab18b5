"""Pictures of every view of ``marl watch``, light, dark and narrow, from runs that it trains first.

    python -m tools.watch_pictures build/pictures            # trains where nothing is there yet; some minutes
    python -m tools.watch_pictures build/pictures --only play

They go to ``docs/pictures/watch/``. It needs Chromium and chromedriver.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from PIL import Image

from tests.watch.browser import open_browser, show, wait_for, wait_until, watched

PLACE = Path(__file__).parents[1] / "docs" / "pictures" / "watch"
NARROWEST_WINDOW = 500  # of Chromium; phones are narrower
COLOURS = 256  # of a picture: pages have few, and a palette makes them small
LOOKS: dict[str, dict[str, Any]] = {
    "": {"width": 1280, "height": 900},
    "_dark": {"width": 1280, "height": 900, "dark": True},
    "_narrow": {"width": 390, "height": 844},
}
# Scenarios, and how far they are trained: enough to have something to look at.
TRAINED: dict[str, list[list[str]]] = {
    "two_step_game": [["--stop-timesteps", "12000", "--set", f"seed={seed}"] for seed in range(3)],
    "two_step_ppo": [["--stop-timesteps", "12000", "--set", f"seed={seed}"] for seed in range(3)],
    "tictactoe": [["--stop-timesteps", "120000"]],
    "traffic": [["--stop-timesteps", "60000"]],
    "rps_psro": [["--stop-timesteps", "12000"]],
}
Act = Callable[[Any], None]


def nothing(driver: Any) -> None:
    del driver


@dataclass(frozen=True)
class View:
    """One picture: the address, with {NAME} for the newest run of a scenario, and what is done before it is taken."""

    address: str
    act: Act = nothing


def train(results: Path) -> None:
    for name, variants in TRAINED.items():
        if list(results.glob(f"{name}/*/checkpoints")):
            continue
        for words in variants:
            command = [
                sys.executable,
                "-m",
                "marl.cli",
                "run",
                name,
                "--num-workers",
                "0",
                "--local-dir",
                str(results),
                *words,
            ]
            subprocess.run([*command, *words], check=True, stdout=subprocess.DEVNULL)


def newest(results: Path) -> dict[str, str]:
    """The newest run of each scenario, as addresses name it."""
    found = {}
    for name in TRAINED:
        runs = sorted(results.glob(f"{name}/*/params.json"), key=lambda file: file.stat().st_mtime)
        found[name] = quote(runs[-1].parent.relative_to(results).as_posix(), safe="")
    return found


# -- what is done before a picture is taken ------------------------------------------------------------------------------


def play(driver: Any) -> None:
    """Some moves of a game, and a hint."""
    wait_for(driver, "#play-start").click()
    free = ".play-board .place[aria-disabled=false]"
    count = f"document.querySelectorAll({free!r}).length"
    for square in (4, 0):
        before = wait_until(driver, count, "a turn")
        driver.find_elements("css selector", free)[square].click()
        wait_until(driver, f"{count} > 0 && {count} < {before}", "an answer")
    press(driver, ".play-tools button", "Hint")
    time.sleep(1.0)


def tick_all(driver: Any) -> None:
    """QMIX beside PPO, over three seeds each."""
    driver.find_element("css selector", "#main input[type=search], #main input[placeholder]").send_keys("two_step")
    time.sleep(1.0)
    press(driver, "button", "Compare those shown")
    time.sleep(2.0)


def train_the_demo(driver: Any) -> None:
    press(driver, "button", "Start")
    time.sleep(20.0)


def what_if(driver: Any) -> None:
    """The other action, measured."""
    press(driver, "button", "What if")
    wait_for(driver, ".what-if-option")
    driver.execute_script("document.querySelectorAll('.what-if-option:not(:disabled)')[0].click()")
    driver.execute_script("document.querySelector('.what-if-measure').click()")
    wait_for(driver, ".what-if-answer")
    driver.execute_script("document.querySelector('.what-if').scrollIntoView({block: 'start'}); scrollBy(0, -70)")


def press(driver: Any, selector: str, text: str) -> None:
    for button in driver.find_elements("css selector", selector):
        if button.is_displayed() and button.text.startswith(text):
            driver.execute_script("arguments[0].click()", button)  # on a phone something may lie above it
            return


VIEWS = {
    "runs": View("/runs", tick_all),
    "run": View("/run/{two_step_game}"),
    "episodes": View("/episodes?run={traffic}&step=12"),
    "what_if": View("/episodes?run={two_step_game}&step=1", what_if),
    "play": View("/play?run={tictactoe}", play),
    "games": View("/games/population/{rps_psro}"),
    "tree": View("/tree?name=kuhn_poker"),
    "dynamics": View("/dynamics"),
    "explain": View("/explain", train_the_demo),
}


def take(driver: Any, file: Path) -> None:
    with Image.open(io.BytesIO(driver.get_screenshot_as_png())) as picture:
        # A page holds many greys and thin lines of few colours, which must not be lost among them.
        small = picture.convert("RGB").quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        small.save(file, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--only", choices=list(VIEWS), nargs="*", default=list(VIEWS))
    parser.add_argument("--looks", choices=list(LOOKS), nargs="*", default=list(LOOKS))
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    PLACE.mkdir(parents=True, exist_ok=True)
    train(options.results)
    runs = newest(options.results)
    with watched(options.results) as server:
        for look in options.looks:
            keys = LOOKS[look]
            with open_browser(**keys) as driver:
                if keys["width"] < NARROWEST_WINDOW:
                    phone = {"width": keys["width"], "height": keys["height"], "deviceScaleFactor": 1, "mobile": True}
                    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
                for name in options.only:
                    show(driver, server, VIEWS[name].address.format(**runs))
                    VIEWS[name].act(driver)
                    time.sleep(1.5)  # curves and animations come to rest
                    take(driver, PLACE / f"{name}{look}.png")


if __name__ == "__main__":
    main()
