"""The way to a language model: one request to ``/chat/completions`` of an OpenAI-compatible server on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from marl.errors import PolicyError

LARGEST_ANSWER = 1_000_000  # bytes


class _StayHere(HTTPRedirectHandler):
    """A server that sends us elsewhere is not followed: what players see does not leave this machine."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs


def ask_server(base_url: str, request: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    """The first choice of the answer: ``message`` and, where they are served, ``logprobs``."""
    url = f"{base_url}/chat/completions"
    body = json.dumps(request).encode()
    opener = build_opener(ProxyHandler({}), _StayHere())  # no proxy either
    try:
        asked = Request(url, body, {"Content-Type": "application/json"})
        with opener.open(asked, timeout=timeout) as reply:
            answer = json.loads(reply.read(LARGEST_ANSWER))
        choice = answer["choices"][0]
        text = choice["message"]["content"]
    except HTTPError as error:
        raise PolicyError(f"the language model at {url} answered {error.code} {error.reason}. {_REMEDY}") from None
    except (OSError, HTTPException) as error:
        raise PolicyError(f"no language model answers at {url}: {error}. {_REMEDY}") from None
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise PolicyError(
            f"{url} answered something else than a chat completion ({type(error).__name__}: {error}). {_REMEDY}"
        ) from None
    return {"content": str(text or ""), "logprobs": choice.get("logprobs")}


_REMEDY = "Start an OpenAI-compatible server there and name its model, or set base_url and model of the policy."
