"""Defaults of keys and arguments are those that were recorded; ``python -m tests.golden.defaults`` records anew."""

import json

import pytest

from tests.golden.defaults import FILE, now

TODAY = now()
RECORDED = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", RECORDED)
def test_keys_and_arguments_have_their_recorded_defaults(name: str) -> None:
    assert {key: TODAY[name].get(key) for key in RECORDED[name]} == RECORDED[
        name
    ]  # a new key is no change of an old one
