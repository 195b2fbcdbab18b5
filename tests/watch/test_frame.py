"""The frame of the page: it opens, without complaints of the browser, and only for those with the token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from marl.page.assets import served_page
from marl.page.standalone import inside_of_a_script, standalone
from tests.watch.asking import client_of
from tests.watch.browser import complaints, show, text_of, wait_for, wait_until, watched


def test_strangers_are_refused(tmp_path: Path) -> None:
    with watched(tmp_path) as server:
        with httpx.Client(base_url=server.url) as client:
            right = {"authorization": f"Bearer {server.desk.secret}"}
            assert client.get("/api/jobs/1").status_code == 401
            assert client.get("/api/jobs/1", headers={"authorization": "Bearer x"}).status_code == 401
            assert client.get("/api/jobs/1", headers=right).status_code == 404
            assert client.get("/api/jobs/1", headers={**right, "origin": "http://evil.example"}).status_code == 403
            assert client.get("/", headers={"host": "evil.example"}).status_code == 403
            assert client.get("/static/../assets.py").status_code == 404
            assert client.get("/static/%2e%2e/assets.py").status_code == 404


def test_the_page_runs_nothing_but_its_own_files() -> None:
    _, policy = served_page()
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.parametrize("text", ["</script><script>alert(1)</script>", "<!--", "&amp;"])
def test_texts_stay_inside_of_their_script(text: str) -> None:
    inside = inside_of_a_script({"a": text})
    assert not set("<>&") & set(inside)
    assert json.loads(inside) == {"a": text}


@pytest.mark.slow
def test_it_opens(browser: Any, tmp_path: Path) -> None:
    with watched(tmp_path) as server:
        for view in ("/runs", "/episodes", "/play", "/games", "/tree", "/dynamics", "/explain"):
            show(browser, server, view)
        assert complaints(browser) == []
        assert server.desk.secret not in browser.current_url


@pytest.mark.slow
def test_without_the_token_it_says_so(browser: Any, tmp_path: Path) -> None:
    with watched(tmp_path) as server:
        browser.get(f"{server.url}/#/runs")
        wait_until(browser, "document.body.innerText.includes('The token is missing')", "what to do")
        browser.get("about:blank")
        assert any("401" in text for text in complaints(browser))  # and the next test finds none


@pytest.mark.slow
def test_a_view_is_one_file(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "view.html"
    asked = ("/api/explain/demo", "/api/explain/runs")
    with watched(tmp_path) as server, client_of(server) as client:
        answers = {path: client.get(path).json() for path in asked}
    file.write_text(standalone("#/explain", answers, "<b>My</b> view"))
    browser.get(file.as_uri())
    wait_for(browser, "#main[data-ready]")
    assert "<b>My</b> view" in text_of(browser)
    assert complaints(browser) == []
