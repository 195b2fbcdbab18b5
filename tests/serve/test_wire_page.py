"""docs/wire.md tells what a real server does."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from marl.data.space_json import space_from_json, space_to_json
from marl.serve.limits import Limits
from marl.serve.messages import HELLO_KEYS, KEYS_OF, REPORT_KEYS, START_KEYS
from marl.serve.served import load_served
from tests.docs.pages import DOCS, Block, blocks_of
from tests.serve.players import server, trained

PAGE = DOCS / "wire.md"
TEXT = PAGE.read_text("utf-8")
SERVE = Path(__file__).parents[2] / "marl" / "serve"
SMALL: dict[str, Any] = {"model": {"fcnet_hiddens": [16]}, "train_batch_size": 64}


def transcript() -> tuple[str, list[Any]]:
    """All commands, and the answers that the page shows."""
    blocks = blocks_of(PAGE)
    commands = "".join(block.text for block in blocks if block.language == "bash")
    return commands, [answer for block in blocks if block.language == "json" for answer in objects_in(block)]


def objects_in(block: Block) -> list[Any]:
    """One JSON object after another, which may take several lines."""
    decoder, found, rest = json.JSONDecoder(), [], block.text.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        found.append(value)
        rest = rest[end:].strip()
    return found


def shape(value: Any) -> Any:
    """Keys and kinds of values; numbers of both sorts are one kind."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    if isinstance(value, list):
        return [shape(part) for part in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return type(value).__name__
    return "number"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_page_get_the_answers_that_it_shows(tmp_path: Path) -> None:
    commands, shown = transcript()
    run = trained(tmp_path / "run", "ppo", "CartPole-v1", **SMALL)
    with server(load_served(str(run))) as running:
        environment = {**os.environ, "URL": running.server.url}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands], env=environment, capture_output=True, text=True, timeout=60
        )
    assert (done.returncode, done.stderr) == (0, "")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [shape(answer) for answer in answers] == [shape(answer) for answer in shown]
    for answer, told in zip(answers[1:], shown[1:], strict=True):
        for key in ("episode", "t", "length", "returns", "status", "version"):
            assert answer.get(key) == told.get(key)
        assert answer.get("error", {}).get("code") == told.get("error", {}).get("code")
    assert answers[3] == answers[4]  # sent again


def rows_of(heading: str) -> list[str]:
    """First cells of the tables under a heading."""
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert section, heading
    return [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]


def keys_of(heading: str) -> set[str]:
    return {key for cell in rows_of(heading) for key in re.findall(r"`(\w+)`", cell)}


def test_every_key_of_a_message_stands_in_its_table() -> None:
    frame = {"type", "id", "token"}
    assert set(HELLO_KEYS) - frame <= keys_of("hello")
    assert set(START_KEYS) - frame == keys_of("start")
    assert (set(KEYS_OF["act"]) | set(REPORT_KEYS)) - frame == keys_of("act")
    log = TEXT.partition("\n## log\n")[2].partition("\n## ")[0]
    for key in set(KEYS_OF["log"]) - set(KEYS_OF["act"]):
        assert f"`{key}`" in log
    end = TEXT.partition("\n## end\n")[2].partition("\n## ")[0]
    for key in set(KEYS_OF["end"]) - frame:
        assert f"`{key}`" in end


def test_every_code_with_which_a_server_refuses_is_listed_and_no_other() -> None:
    used = {"out_of_order", "too_many", "bad_message"}
    for file in SERVE.glob("*.py"):
        used |= set(re.findall(r'Refused\(\s*"(\w+)"', file.read_text("utf-8")))
        used |= set(re.findall(r"^CODES = \{.*", file.read_text("utf-8"), re.M)) and {"not_found", "method_not_allowed"}
    assert used <= keys_of("Errors")
    assert keys_of("Errors") - used <= {"episode_failed"}  # one episode alone; a hub may tell it as failed


def test_every_limit_is_listed_with_its_default() -> None:
    assert keys_of("Limits") == set(Limits.model_fields)
    told = dict(zip(sorted(keys_of("Limits")), sorted(rows_of("Limits")), strict=True))
    assert told
    for name, field in Limits.model_fields.items():
        row = next(line for line in TEXT.splitlines() if line.startswith(f"| `{name}` |"))
        default = {1024 * 1024: "1 MiB"}.get(field.default, f"{field.default:g}")
        assert re.search(rf"\| {default}\b", row), row


def test_the_spaces_of_the_page_can_be_built_and_all_are_there() -> None:
    section = TEXT.partition("\n## Values and spaces\n")[2].partition("\n## ")[0]
    found = {}
    for written in re.findall(r'`(\{"type".*?\})`', section):
        plain = json.loads(re.sub(r"\bSPACE\b", '{"type": "Discrete", "n": 2, "start": 0}', written))
        found[plain["type"]] = plain
        assert space_to_json(space_from_json(plain)) == plain
    assert found.keys() == {"Box", "Discrete", "MultiDiscrete", "MultiBinary", "Tuple", "Dict"}
