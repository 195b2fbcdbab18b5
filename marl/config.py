"""The base of all config classes: unknown keys are refused, values are checked, objects do not change."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic_core import CoreSchema, ErrorDetails

from marl.errors import ConfigError, did_you_mean
from marl.needs import Declared, refusals

# Keys that may be infinite: no limit.
LIMITS = frozenset(
    ("stop", "clip_param", "vf_clip_param", "grad_clip", "clip_rewards", "huber_delta", "max_advantage_weight",
     "target_noise_clip", "vtrace_c_bar", "vtrace_rho_bar", "env_timeout_s")
)  # fmt: skip


class Config(BaseModel):
    """Typed keys with default, limits and a sentence each; the sentence ends up in ``marl config``."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, arbitrary_types_allowed=True)

    inherited_needs: ClassVar[Mapping[str, Declared]] = {}
    """What this class asks of keys that a class above it declares; its own keys say it themselves (``json_schema_extra``)."""

    @model_validator(mode="before")
    @classmethod
    def _no_truth_for_numbers(cls, given: Any) -> Any:
        """``true`` would count as 1, and so would YAML's ``yes`` and ``on``."""
        for key, value in given.items() if isinstance(given, Mapping) else ():
            if isinstance(value, bool) and key in _numbers(cls):
                said = "true" if value else "false"
                raise ValueError(
                    f"{key} is {said}; expected a number (YAML reads yes, on, no and off as true and false)"
                )
        return given

    @model_validator(mode="after")
    def _only_numbers(self) -> Config:
        """NaN is nobody's value: every comparison with it is false. Infinity says "no limit" to keys that are limits."""
        for key, field in type(self).model_fields.items():
            if "float" not in str(field.annotation):  # what is handed on to an env or a model may hold anything
                continue
            for number in _floats(getattr(self, key)):
                if math.isfinite(number):
                    continue
                is_no_limit = math.isinf(number) and key in LIMITS
                if not is_no_limit:
                    raise ValueError(f"{key} holds {number}; expected a finite number, neither infinite nor NaN")
        return self

    @model_validator(mode="after")
    def _keys_have_what_they_need(self) -> Config:
        """A key that would be ignored is refused."""
        broken = list(refusals(self, self.declared(), self.defaults()))
        if broken:
            raise ValueError(". ".join(broken))
        return self

    @classmethod
    def declared(cls) -> Mapping[str, Declared]:
        """What keys need, of those that need anything."""
        return _declared(cls)

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The default of every key; ``PydanticUndefined`` where there is none."""
        defaults: dict[str, Any] = {}
        for key, field in cls.model_fields.items():
            defaults[key] = field.get_default(call_default_factory=True)
        return defaults

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The JSON schema tells what a key needs after what it is, and as a list for programs."""
        made = handler(core)
        properties = handler.resolve_ref_schema(made).get("properties", {})
        for key, declared in cls.declared().items():
            told = declared.sentences()
            if told:
                properties[key]["needs"] = told
                properties[key]["description"] = " ".join([properties[key]["description"], *told])
        return made

    def changed(self, *keys: str) -> list[str]:
        """Those of these keys whose value is not the default."""
        defaults = self.defaults()
        return [key for key in keys if getattr(self, key) != defaults[key]]


@cache  # classes do not change, and an env's keys are checked for every copy of it
def _declared(config: type[Config]) -> Mapping[str, Declared]:
    found: dict[str, Declared] = {}
    for key, field in config.model_fields.items():
        if isinstance(field.json_schema_extra, Declared):
            found[key] = field.json_schema_extra
    for above in reversed(config.__mro__):
        for key, more in vars(above).get("inherited_needs", {}).items():
            # What a base class asks of a key holds for those that inherit from it as well.
            if key in found:
                more = found[key].joined(more)
            found[key] = more
    return found


@cache
def _numbers(config: type[Config]) -> frozenset[str]:
    """Keys that take numbers and no truth values."""
    found = set()
    for key, field in config.model_fields.items():
        types = set(_alternatives(field.annotation))
        if types & {int, float} and not types & {bool, Any}:
            found.add(key)
    return frozenset(found)


def _alternatives(annotation: Any) -> Iterator[Any]:
    """``int | None`` as its parts, each without limits."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for part in get_args(annotation):
            yield from _alternatives(part)
    else:
        yield annotation


@dataclass(frozen=True, kw_only=True)
class Named(Declared):
    """``json_schema_extra`` of a key whose values are registered names: schema and reference list those of the moment, also
    the ones from outside of marl."""

    names: Callable[[], list[str]]
    meaning: Callable[[], str] | None = None  # None: the description of the key says it all

    def __call__(self, schema: dict[str, Any]) -> None:
        schema["enum"] = self.names()
        schema["description"] = self.told(schema["description"])

    def told(self, description: str) -> str:
        """What the key means, by the names of the moment."""
        if self.meaning is None:
            return description
        return self.meaning()


def _floats(value: object) -> Iterator[float]:
    """All floating-point numbers in a value of plain Python."""
    inside: Iterable[object] = ()
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, list | tuple):
        inside = value
    for item in inside:
        yield from _floats(item)


def explain(
    error: ValidationError, where: str, known: Iterable[str] = (), hints: Mapping[str, str] | None = None
) -> ConfigError:
    """A ``ConfigError`` with one line per mistake instead of pydantic's report; ``hints`` are for keys that we know of but do
    not have."""
    known, hints = list(known), hints or {}
    lines = [_line(problem, where, known, hints) for problem in error.errors()]
    # For a key of several types pydantic reports the same problem once per type.
    return ConfigError("\n".join(dict.fromkeys(lines)))


# Of a key of several types pydantic also names the type, as if it were a key below.
ALTERNATIVE = re.compile(r"(constrained-)?(int|float|str)|list\[.+\]")
MOST_KEYS = 40  # beyond, a list of all keys hides the message


def _line(problem: ErrorDetails, where: str, known: list[str], hints: Mapping[str, str]) -> str:
    path = ".".join(str(part) for part in problem["loc"] if not ALTERNATIVE.fullmatch(str(part)))
    if problem["type"] == "extra_forbidden":
        return f"{where}: unknown key {path!r}.{_remedy(str(problem['loc'][-1]), known, hints)}"
    if problem["type"] == "missing":
        return f"{where}: the key {path!r} is missing."
    if problem["type"] == "value_error":
        sentence = problem["msg"].removeprefix("Value error, ")  # a sentence of ours
        if path:
            sentence = f"{path}: {sentence}"
        return f"{where}: {sentence}."
    got = problem["input"]
    what = path or "value"
    return f"{where}: {what} = {got!r} ({type(got).__name__}) does not fit: {problem['msg']}."


def _remedy(key: str, known: list[str], hints: Mapping[str, str]) -> str:
    """What to write instead of an unknown key, or which keys there are."""
    if key in hints:
        return f" Here, {hints[key]}."
    guess = did_you_mean(key, known)
    if not known:
        return guess
    if len(known) <= MOST_KEYS:
        return f"{guess} Known keys: {', '.join(sorted(known))}."
    return guess or " `marl config` lists all keys."
