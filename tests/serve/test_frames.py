"""Bytes of the network become plain messages, or a refusal."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import numpy as np
import pytest

from marl.serve.frames import JSON, MSGPACK, Format, is_too_deep
from marl.serve.refused import Refused


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("form", [JSON, MSGPACK])
def test_a_message_comes_back_as_it_was_sent(form: Format) -> None:
    message = {"type": "act", "agents": {"a": {"obs": [1.5, -2, 0], "info": {"x": None, "y": [True, "ä"]}}}}
    assert form.decode(form.encode(message), 16) == message


@pytest.mark.parametrize("form", [JSON, MSGPACK])
def test_numbers_of_numpy_can_be_sent(form: Format) -> None:
    sent = form.encode({"actions": {"a": np.int64(3), "b": np.array([0.5, 1.0], np.float32)}})
    assert form.decode(sent, 16) == {"actions": {"a": 3, "b": [0.5, 1.0]}}


@pytest.mark.parametrize("depth", [3, 4, 5, 6])
def test_depth_is_counted_exactly_and_brackets_in_texts_are_not_counted(depth: int) -> None:
    text = json.dumps({"a": nested(depth - 1), "b": '[[[[[[{{{{\\"[[[[[', "c": [{}, {}, []]})
    assert is_too_deep(text, 4) == (depth > 4)
    assert is_too_deep(text.encode(), 4) == (depth > 4)


def test_a_million_brackets_are_refused_without_being_parsed() -> None:
    with pytest.raises(Refused, match="16 levels"):
        JSON.decode(b"[" * 1_000_000, 16)
    with pytest.raises(Refused, match="16 levels"):
        JSON.decode('{"a":' * 200_000, 16)
    with pytest.raises(Refused, match="no message"):
        MSGPACK.decode(b"\x91" * 1_000_000, 16)


def test_a_text_without_an_end_does_not_take_quadratic_time() -> None:
    # Each of the 300,000 quotes could begin a text that goes on to the end: 10^10 steps, if somebody tried them all.
    with pytest.raises(Refused):
        JSON.decode(b'[[[[[[[[[[[[[[[[["' + b'\\"' * 300_000, 16)


@pytest.mark.parametrize("depth", [15, 16])
def test_msgpack_is_as_deep_as_json_may_be(depth: int) -> None:
    message = {"a": nested(depth)}
    packed = msgpack.packb(message)
    if depth == 16:
        with pytest.raises(Refused, match="16 levels"):
            MSGPACK.decode(packed, 16)
    else:
        assert MSGPACK.decode(packed, 16) == message


STRANGE = {
    "half an object": b'{"a": ',
    "a list": b"[1, 2]",
    "a number": b"3",
    "nothing": b"",
    "no UTF-8": b'{"a": "\xff\xfe"}',
    "a number of 5,000 digits": b'{"a": ' + b"9" * 5_000 + b"}",
}


@pytest.mark.parametrize("frame", STRANGE.values(), ids=STRANGE.keys())
def test_what_is_no_json_object_is_refused(frame: bytes) -> None:
    with pytest.raises(Refused) as told:
        JSON.decode(frame, 16)
    assert told.value.code == "bad_message"


PACKED = {
    "half a map": b"\x82\xa1a",
    "a map of four billion": b"\xdf\xff\xff\xff\xff",
    "an array of four billion": b"\x81\xa1a\xdd\xff\xff\xff\xff",
    "an extension": msgpack.packb({"a": msgpack.ExtType(42, b"code")}),
    "a time": msgpack.packb({"a": msgpack.Timestamp(1, 0)}),
    "bytes": msgpack.packb({"a": b"\x00"}),
    "a key that is no text": msgpack.packb({"a": {3: 4}}),
    "a key of bytes": msgpack.packb({b"a": 4}),
    "two messages": msgpack.packb({}) * 2,
    "a list": msgpack.packb([1]),
    "nothing": b"",
}


@pytest.mark.parametrize("frame", PACKED.values(), ids=PACKED.keys())
def test_what_is_no_plain_msgpack_map_is_refused(frame: bytes) -> None:
    with pytest.raises(Refused) as told:
        MSGPACK.decode(frame, 16)
    assert told.value.code == "bad_message"


def test_the_bytes_of_a_packed_array_are_handed_on() -> None:
    array = {"__nd__": True, "dtype": "float32", "shape": [2], "data": np.ones(2, np.float32).tobytes()}
    assert MSGPACK.decode(msgpack.packb({"obs": array}), 16) == {"obs": array}


def test_nan_is_never_sent() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        JSON.encode({"value": float("nan")})
