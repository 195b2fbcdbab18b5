"""Every link of the documentation leads somewhere: to a file, and to a heading in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown.extensions.toc import unique
from pymdownx.slugs import slugify

from docs.reference.generate import inside, pages
from tests.docs.pages import DOCS, FENCE, ROOT, name_of, page_files, without_code

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?: \"[^\"]*\")?\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *(?:\{#([\w-]+)\})? *#*$", re.MULTILINE)
SLUG = slugify(case="lower")


def anchors(text: str) -> set[str]:
    """Names of the headings of a page, as the site gives them; a name that is taken gets a number."""
    taken: set[str] = set()
    for title, given in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").replace("*", "")
        unique(given or SLUG(plain, "-"), taken)
    return taken | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def text_at(path: Path) -> str | None:
    """The page behind a link, written or generated; None where there is none."""
    if path.is_file():
        return path.read_text(encoding="utf-8") if path.suffix == ".md" else ""
    if path.is_dir():
        return ""
    return pages().get(path.relative_to(DOCS).as_posix()) if path.is_relative_to(DOCS) else None


def broken_links(text: str, page: Path) -> list[str]:
    broken = []
    for link in LINK.findall(without_code(text)):
        if re.match(r"[a-z]+:", link):  # another site
            continue
        path, _, anchor = link.partition("#")
        target = text if not path else text_at((page.parent / path).resolve())
        if target is None or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", page_files(), ids=name_of)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    assert broken_links(page.read_text(encoding="utf-8"), page) == []


def test_scenarios_and_examples_that_are_named_exist() -> None:
    for page in page_files():
        for path in re.findall(
            r"(?<![\w/])(?:scenarios|examples|benchmarks)/\w+\.(?:yaml|py)", page.read_text("utf-8")
        ):
            assert (ROOT / path).is_file(), f"{name_of(page)} names {path}"


def test_a_link_that_leads_nowhere_is_found() -> None:
    page = DOCS / "some.md"
    text = "# A `title`, twice\n[a](groups.md) [b](grous.md) [c](#a-title-twice) [d](#b) [e](groups.md#keys) `[f](g)`\n"
    assert broken_links(text, page) == ["grous.md", "#b", "groups.md#keys"]


def test_two_headings_of_the_same_name_are_told_apart() -> None:
    assert anchors("# Keys\n## Keys\n```\n# no heading\n```\n### 시작\n") == {"keys", "keys_1", "시작"}


@pytest.mark.parametrize(
    ("page", "link", "led"),
    [
        ("offline.md", "[x](../examples/custom_env.py)", "[x](reference/examples.md#custom_env)"),
        ("howto/a.md", "[x](../../scenarios/traffic.yaml)", "[x](../reference/scenarios.md#traffic)"),
        ("howto/a.md", "[x](../groups.md#sharing-layers)", "[x](../groups.md#sharing-layers)"),
        ("a.md", "[all](../examples)", "[all](reference/examples.md)"),
        ("a.md", "[x](../examples/standalone/ppo.py)", "[x](reference/standalone.md#ppo)"),
        ("howto/a.md", "[x](../../examples/standalone)", "[x](../reference/standalone.md)"),
        ("a.md", "[x](../CHANGELOG.md)", "x"),
        ("a.md", "[x](../README.md)", "[x](index.md)"),
    ],
)
def test_links_out_of_the_docs_are_led_to_the_sites_own_copies(page: str, link: str, led: str) -> None:
    assert inside(link, page) == led
