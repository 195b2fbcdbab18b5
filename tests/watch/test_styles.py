"""All style sheets are loaded together, so a rule of one view must not reach into another."""

from __future__ import annotations

import re
from collections import defaultdict

from marl.page.assets import STATIC

SHARED = "base.css"  # classes of the whole page, which views may add to


def first_classes(text: str) -> set[str]:
    """The class with which each selector begins: the part of the page that it speaks of."""
    selectors = [one.strip() for rule in re.findall(r"([^{}]+)\{", text) for one in rule.split(",")]
    return {found[1] for one in selectors if (found := re.match(r"[a-z]*\.([\w-]+)", one))}


def test_no_two_views_style_the_same_class() -> None:
    sheets = defaultdict(list)
    for path in sorted((STATIC / "css").glob("*.css")):
        if path.name == SHARED:
            continue
        for name in first_classes(re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)):
            sheets[name].append(path.name)
    assert sheets
    assert {name: found for name, found in sheets.items() if len(found) > 1} == {}
