"""Keys of players that are language models."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, field_validator

from marl.config import Config
from marl.needs import declare, needs, one_of

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class LanguageModelConfig(Config):
    """A language model behind an OpenAI-compatible server on this machine."""

    base_url: str = Field(
        "http://127.0.0.1:8080/v1",
        description="Where the server answers, up to /v1. Only servers on this machine are asked (localhost, 127.0.0.1, ::1).",
    )
    model: str = Field("default", description="The name of the model, as the server knows it.")
    temperature: NonNegativeFloat = Field(
        1.0, description="How freely the model draws; 0: always its likeliest answer."
    )
    chances: Literal["samples", "logprobs"] = Field(
        "samples",
        description="How the chances of actions are read: by asking several times, or from the log probabilities.",
    )
    samples: PositiveInt = Field(
        20,
        description="How often the model is asked about each information set.",
        json_schema_extra=declare(needs(one_of("chances", "samples"))),
    )
    retries: int = Field(2, ge=0, le=20, description="Further tries after an answer that names no legal action.")
    fallback: Literal["uniform", "first", "error"] = Field(
        "uniform",
        description="What counts when all tries failed: all legal actions alike, the first one, or the run ends.",
    )
    prompt: str = Field("", description="Words that are put before the rules, such as how to think or whom to play.")
    journal: str | None = Field(
        None,
        description="A file NAME.jsonl of all questions and answers; what stands there is not asked again.",
    )
    offline: bool = Field(False, description="Only the journal answers; a question that is not in it is an error.")
    timeout: PositiveFloat = Field(60.0, description="Seconds that an answer may take.")
    env: str | None = Field(None, description="The env whose texts are shown. Default: the scenario's.")
    env_config: dict[str, Any] = Field({}, description="Its keys. Default: the scenario's.")

    @field_validator("base_url")
    @classmethod
    def _stays_here(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname not in LOOPBACK:
            raise ValueError(
                f"base_url is {url!r}; expected http:// and one of {', '.join(LOOPBACK)}: what players see does not leave "
                "this machine. Reach another one through a tunnel that ends here"
            )
        return url.rstrip("/")

    @field_validator("journal")
    @classmethod
    def _is_a_journal(cls, path: str | None) -> str | None:
        # Lines are added to the file, so it must not be any file of the user's.
        if path is not None and not path.endswith(".jsonl"):
            raise ValueError(f"journal is {path!r}; expected a file that ends in .jsonl")
        return path
