"""The snippets of docs/models.md run as they are written."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "models.md"


def test_the_snippets_run_one_after_the_other() -> None:
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(snippets) == 4
    names: dict[str, object] = {}
    for snippet in snippets:
        exec(snippet, names)
    assert "Residual" in names
    assert "Sharp" in names
