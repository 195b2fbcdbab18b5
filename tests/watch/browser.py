"""A real browser for tests of the page: Chromium of the system, driven by selenium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from marl.serve.config import ServerConfig
from marl.watch.desk import Desk, new_secret
from marl.watch.server import WatchServer

PATIENCE_S = 60.0  # of waiting for something on the page: machines may be busy
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def browser_path() -> str | None:
    """The browser's program, where it and its driver are installed."""
    if shutil.which("chromedriver") is None:
        return None
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def skip_without_browser() -> None:
    """Say why a test is skipped; in CI a missing browser is a failure."""
    if browser_path() is not None:
        return
    why = "no Chromium with chromedriver on this machine (Debian: apt-get install chromium chromium-driver)"
    if os.environ.get("MARL_BROWSER_TESTS") == "needed":
        pytest.fail(why)
    pytest.skip(why)


@contextmanager
def open_browser(
    width: int = 1280, height: int = 900, *, dark: bool = False, downloads: Path | None = None
) -> Iterator[Any]:
    """A browser without a window. Files that are saved go to ``downloads``."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = browser_path() or ""
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(word)
    options.add_argument(f"--window-size={width},{height}")
    if dark:
        options.add_argument("--force-dark-mode")
        options.add_argument("--blink-settings=preferredColorScheme=0")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    if downloads is not None:
        options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


@contextmanager
def watched(root: Path, **keys: Any) -> Iterator[WatchServer]:
    """``marl watch`` of a folder, in this process, at a free port."""
    desk = Desk(root, ServerConfig(port=0), new_secret(), **keys)
    server = WatchServer(desk)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def show(driver: Any, server: WatchServer, view: str) -> None:
    """Open a view (``/runs``) and wait until it is there."""
    driver.get("about:blank")
    driver.get(f"{server.page}{view}")
    wait_for(driver, "#main[data-ready]")


def wait_for(driver: Any, selector: str) -> Any:
    """The first element of a CSS selector, once it is there."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support import expected_conditions
    from selenium.webdriver.support.ui import WebDriverWait

    there = expected_conditions.presence_of_element_located((By.CSS_SELECTOR, selector))
    return WebDriverWait(driver, PATIENCE_S).until(there, f"{selector} is not on the page: {text_of(driver)}")


def wait_until(driver: Any, script: str, what: str) -> Any:
    """What a JavaScript expression gives, once it is true."""
    from selenium.webdriver.support.ui import WebDriverWait

    def found(_: Any) -> Any:
        return driver.execute_script(f"return {script}")

    return WebDriverWait(driver, PATIENCE_S, poll_frequency=0.05).until(found, f"{what}: {text_of(driver)}")


def text_of(driver: Any) -> str:
    """All that is to be read on the page."""
    return str(driver.execute_script("return document.body.innerText"))


def complaints(driver: Any) -> list[str]:
    """Errors that the browser has noted, such as those of scripts and of the page's policy."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
