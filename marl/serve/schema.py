"""What messages and answers look like, for ``/openapi.json`` and ``/docs``.

Messages are read by hand (``messages.py``), because that says better what is wrong with them, and faster; tests hold the
messages of a real session against these descriptions.
"""

from __future__ import annotations

from typing import Any, Literal

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema

ABOUT = """Policies for programs that are not ours, protocol marl/1.

Each message is one object. Send it by POST to the routes below (content-type application/json or application/msgpack; the
answer is in kind), or as a frame of the WebSocket /v1/session: there it has the key `type` (hello, start, act, log or end)
besides, and may have an `id`, which the answer repeats; text frames are JSON, binary frames msgpack; answers come as they are
ready. An error is {"error": {"code", "message", ...}} with a status other than 200, on the socket with `type` "error".

(session, episode, t) names a step. A message that is sent again gets the answer of the first one and counts once, so it may be
sent again after any error of the network. In msgpack an array may be {"__nd__": true, "dtype": "float32", "shape": [4],
"data": bytes}, lowest byte first."""


class Described(BaseModel):
    """A description of a message; unknown keys are refused, as the server does."""

    model_config = ConfigDict(extra="forbid")


class Agent(Described):
    """An agent, or a pattern of ids such as car_*."""

    observation_space: dict[str, Any] = Field(description="What it sees, such as {type: Box, low, high, shape, dtype}.")
    action_space: dict[str, Any] = Field(description="What it does, such as {type: Discrete, n: 2, start: 0}.")
    action_mask: bool = Field(False, description="Its reports carry an action_mask.")
    group: str | None = Field(None, description="Its team.")
    max: int = Field(1, description="How many agents of the pattern can be there at once.")


class Hello(Described):
    """The first message of a client."""

    protocol: Literal["marl/1"] = Field(description="Which protocol the client speaks.")
    token: str | None = Field(None, description="The server's token, where the header Authorization cannot be set.")
    session: str | None = Field(None, description="A session to go on with.")
    name: str | None = Field(None, description="A name under which a restarted client finds its session again.")
    agents: dict[str, Agent] | None = Field(
        None, description="The agents of this client. Default: those of the server."
    )
    state_size: int | None = Field(None, description="Numbers of the global state that the client will send.")
    mode: Literal["remote", "local"] | None = Field(None, description="Who acts: the server, or the client itself.")


class Policy(BaseModel):
    """A policy that plays here."""

    model_config = ConfigDict(extra="allow")

    policy: str = Field(description="Its name.")
    algo: str | None = Field(None, description="By which algorithm it learned.")
    agents: list[str] = Field([], description="Ids or patterns of the agents that it plays.")
    observation_space: dict[str, Any] | None = Field(None, description="What it sees.")
    action_space: dict[str, Any] | None = Field(None, description="What it does.")
    recurrent: bool = Field(False, description="Whether it remembers earlier steps of an episode.")


class OpenEpisode(Described):
    """An episode of this session that still runs, with what a simulator needs to get there again."""

    episode: str = Field(description="Its id.")
    begun: bool = Field(description="Whether its start has been answered.")
    t: int = Field(description="The next step.")
    seed: int | None = Field(None, description="The seed that it was given.")
    training: bool = Field(description="Whether it is learned from.")
    parties: int = Field(description="How many sessions play it together.")
    actions: list[dict[str, Any]] | None = Field(
        description="The actions of each step so far, by agent; null where they are too many to be kept."
    )


class HelloAnswer(Described):
    """What the server offers."""

    session: str = Field(description="The id of the session, for all further messages. Keep it to yourself.")
    protocol: str = Field(description="Which protocol the server speaks.")
    policies: list[Policy] = Field(description="Who plays.")
    agents: dict[str, Agent] = Field(description="The agents that the server knows, and their spaces.")
    state_size: int = Field(description="Numbers of the global state that each step has to have; 0: none.")
    version: int = Field(description="Version of the weights that act now.")
    lock_step: bool = Field(description="Whether answers wait until a learning run has done its update.")
    training: bool = Field(description="Whether a run learns here.")
    limits: dict[str, float] = Field(description="How much the server takes; each limit by its name.")
    open: list[OpenEpisode] = Field(description="Episodes of this session that still run.")


class Start(Described):
    """An episode begins."""

    session: str = Field(description="The id of the session.")
    episode: str | None = Field(
        None, description="An id of the client's choice; with it the message may be sent again."
    )
    training: bool = Field(True, description="Whether it may be learned from.")
    parties: int = Field(1, description="How many sessions play it together, each with agents of its own.")


class StartAnswer(Described):
    """It has begun."""

    episode: str = Field(description="Its id.")
    seed: int | None = Field(None, description="A seed for the simulator, where the server has a wish.")
    training: bool = Field(description="Whether it is learned from.")
    version: int = Field(description="Version of the weights that act now.")


class Report(Described):
    """What happened to one agent since the last step, and what it sees now."""

    obs: Any = Field(None, description="What it sees, in its observation space; an agent that sees something is asked.")
    action_mask: Any = Field(None, description="1 for each action that is allowed now, 0 for the others.")
    reward: float = Field(0.0, description="What it earned since the last step; none at t = 0.")
    terminated: bool = Field(False, description="Its life ended by the rules of the game.")
    truncated: bool = Field(False, description="Its life was cut off.")
    info: dict[str, Any] = Field({}, description="Anything; callbacks see it.")


class End(Described):
    """An episode is over."""

    session: str = Field(description="The id of the session.")
    episode: str = Field(description="The id of the episode.")
    t: int = Field(description="Number of the step: 0, 1, 2, ... over act, log and end.")
    agents: dict[str, Report] | None = Field(None, description="The last rewards, flags and observations.")
    state: Any = Field(None, description="The global state: a list of state_size numbers.")


class EndAnswer(Described):
    """What it brought."""

    episode: str = Field(description="The id of the episode.")
    t: int = Field(description="Number of the step.")
    returns: dict[str, float] = Field(description="The sum of the rewards of each agent.")
    length: int = Field(description="Steps of the episode.")


class Act(End):
    """A step: what happened, and a request for actions."""

    agents: dict[str, Report] = Field(description="All agents of which there is something to say.")
    want: list[Literal["probabilities", "value", "state"]] | None = Field(
        None, description="Details that the answer should have."
    )


class ActAnswer(Described):
    """What agents do."""

    episode: str = Field(description="The id of the episode.")
    t: int = Field(description="Number of the step.")
    actions: dict[str, Any] = Field(description="An action for each agent that was asked.")
    version: int = Field(description="Version of the weights that chose them.")
    details: dict[str, Any] | None = Field(None, description="What `want` asked for, by agent.")
    ended: bool = Field(
        False, description="Another party has ended the episode; then `returns` and `length` are there."
    )
    returns: dict[str, float] | None = Field(
        None, description="The sum of the rewards of each agent, of an ended episode."
    )
    length: int | None = Field(None, description="Steps of the episode, of an ended one.")


class Log(Act):
    """A step in which the client chose the actions itself."""

    actions: dict[str, Any] = Field(description="What each agent that would be asked did.")
    logp: dict[str, float] | None = Field(None, description="The logarithm of how probable that was.")
    version: int | None = Field(None, description="Version of the weights with which it was chosen.")


class LogAnswer(Described):
    """It was taken."""

    episode: str = Field(description="The id of the episode.")
    t: int = Field(description="Number of the step.")
    version: int = Field(description="Version of the weights that act now.")


class Error(Described):
    """Why a message was not taken. Nothing of it counts."""

    code: str = Field(description="For programs: bad_message, unknown_session, out_of_order, too_many, ...")
    message: str = Field(description="For people: what was got, what is expected, what to do.")
    retry_after: float | None = Field(None, description="Seconds after which it may be sent again.")
    expected: Any = Field(None, description="What would have been right, such as the next t.")
    agent: str | None = Field(None, description="The agent that it is about.")
    t: int | None = Field(None, description="The step that it is about.")
    key: str | None = Field(None, description="The key that it is about.")


class Refusal(Described):
    """The answer to a message that was not taken."""

    error: Error = Field(description="Why.")


MESSAGES: dict[str, type[BaseModel]] = {"hello": Hello, "start": Start, "act": Act, "log": Log, "end": End}
ANSWERS: dict[str, type[BaseModel]] = {
    "hello": HelloAnswer, "start": StartAnswer, "act": ActAnswer, "log": LogAnswer, "end": EndAnswer,
}  # fmt: skip
WEIGHTS = "A policy as a zip of policy.json and safetensors; its ETag is the version. 204 where there is no newer one."
WEIGHTS_PARAMETERS = {
    "parameters": [
        {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}, "description": "The policy."},
        {"name": "newer_than", "in": "query", "required": False, "schema": {"type": "integer"},
         "description": "The version that the client has already."},
    ]
}  # fmt: skip
REF = "#/components/schemas/{model}"


def _content(model: type[BaseModel]) -> dict[str, Any]:
    schema = {"$ref": REF.format(model=model.__name__)}
    return {"application/json": {"schema": schema}, "application/msgpack": {"schema": schema}}


def request_body(kind: str) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": _content(MESSAGES[kind])}}


def responses(kind: str) -> dict[int | str, dict[str, Any]]:
    return {
        200: {"description": ANSWERS[kind].__doc__, "content": _content(ANSWERS[kind])},
        "default": {"description": Refusal.__doc__, "content": _content(Refusal)},
    }


def describe(app: FastAPI) -> dict[str, Any]:
    """The whole OpenAPI document: the routes, and the models that they refer to."""
    described = app.openapi()
    models = [(model, "validation") for model in (*MESSAGES.values(), *ANSWERS.values(), Refusal)]
    _, found = models_json_schema(models, ref_template=REF)  # type: ignore[arg-type]
    described.setdefault("components", {}).setdefault("schemas", {}).update(found["$defs"])
    return described
