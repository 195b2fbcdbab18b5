"""Whether what a client says of its agents fits what the server plays with."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from marl.data.space_json import space_from_json, space_to_json
from marl.envs.external.contract import Contract, ExternalAgent, unclear_names
from marl.errors import did_you_mean
from marl.serve.messages import LONGEST_NAME, check_depth, whole
from marl.serve.refused import Refused, bad_message, shortly
from marl.serve.space_size import BROKEN, LARGEST_SPACE, size_of

MOST_AGENTS = 1_000  # at once, of all patterns
LARGEST_CONTRACT = 100_000_000  # numbers of all agents at once: as many as ten spaces of the largest size
AGENT_KEYS = frozenset(("observation_space", "action_space", "action_mask", "group", "max"))


def new_contract(message: Mapping[str, Any], max_depth: int) -> Contract:
    """The contract that the first client of a server states."""
    agents = _stated(message, max_depth)
    if not agents:
        raise Refused(
            "contract",
            "this server does not know its agents yet: say them in hello, as agents: {id: {observation_space, action_space}}.",
            409,
            where={"key": "agents"},
        )
    _check_amount(agents)
    _check_names(agents)
    built: dict[str, ExternalAgent] = {}
    for name, told in agents.items():
        try:
            built[name] = ExternalAgent(**told)
        except ValidationError as error:
            first = error.errors()[0]
            raise _misfit(name, str(first["loc"][0]), _outline(first["msg"]), "a space as JSON") from None
    state_size = 0
    if message.get("state_size") is not None:
        state_size = whole("hello", message, "state_size", 0, LARGEST_SPACE)
    return Contract(built, state_size)


def _check_names(agents: Mapping[str, Any]) -> None:
    unclear = unclear_names(agents)
    if unclear:
        raise Refused("contract", unclear, 409, where={"key": "agents"})


def _check_amount(agents: Mapping[str, Mapping[str, Any]]) -> None:
    """What a run would be built for, before anything of it is."""
    seats, numbers = 0, 0
    for name, told in agents.items():
        most = told.get("max", 1)
        highest = MOST_AGENTS if "*" in name else 1
        if type(most) is not int or not 1 <= most <= highest:
            raise _misfit(name, "max", shortly(most), f"a whole number from 1 to {highest}")
        seats += most
        for key in ("observation_space", "action_space"):
            numbers += most * _checked_size(name, key, told.get(key))
    if seats > MOST_AGENTS or numbers > LARGEST_CONTRACT:
        raise Refused(
            "contract",
            f"hello names {seats} agents at once, with {numbers} numbers in their spaces; expected at most {MOST_AGENTS} "
            f"agents and {LARGEST_CONTRACT} numbers. A run with more has to say them in env_config of its scenario.",
            409,
            where={"key": "agents"},
        )


def _checked_size(name: str, key: str, given: Any) -> int:
    size = size_of(given)
    if size is None or size > LARGEST_SPACE:
        raise _misfit(name, key, _outline(given), f"a space of at most {LARGEST_SPACE} numbers as JSON")
    return size


def check_fit(contract: Contract, message: Mapping[str, Any], max_depth: int) -> frozenset[str]:
    """The entries that a client says it plays, all of which have to fit; empty: it takes the server's."""
    agents = _stated(message, max_depth)
    for name, told in agents.items():
        _check_agent(contract, name, told)
    size = message.get("state_size")
    if size is not None and size != contract.state_size:
        raise Refused(
            "contract",
            f"state_size is {shortly(size)}; the server plays with {contract.state_size}. Send a state of this size.",
            409,
            where={"key": "state_size"},
            expected=contract.state_size,
        )
    return frozenset(agents)


def contract_json(contract: Contract) -> dict[str, Any]:
    """The agents of a contract as hello tells them."""
    return {name: agent.model_dump(exclude_none=True) for name, agent in contract.agents.items()}


def _stated(message: Mapping[str, Any], max_depth: int) -> dict[str, dict[str, Any]]:
    agents = message.get("agents")
    if agents is None:
        return {}
    if not isinstance(agents, dict):
        raise bad_message(
            f"agents of hello is {shortly(agents)}; expected {{id: {{observation_space, ...}}}}.", key="agents"
        )
    check_depth(agents, max_depth, key="agents")
    for name, told in agents.items():
        if not 0 < len(name) <= LONGEST_NAME:
            raise bad_message(f"the agent {shortly(name)} has no usable name.", key="agents")
        if not isinstance(told, dict) or not told.keys() <= AGENT_KEYS:
            raise bad_message(
                f"agent {shortly(name)} is {shortly(told)}; expected an object with keys of {', '.join(sorted(AGENT_KEYS))}.",
                agent=name,
            )
    return agents


def _check_agent(contract: Contract, name: str, told: Mapping[str, Any]) -> None:
    entry = name if name in contract.agents else contract.name_of(name)
    if entry is None:
        known = list(contract.agents)
        raise Refused(
            "contract",
            f"agent {shortly(name)} is unknown here. Known: {', '.join(known)}.{did_you_mean(name, known)}",
            409,
            where={"agent": name},
            expected=known,
        )
    agent = contract.agents[entry]
    _check_space(name, "observation_space", told.get("observation_space"), agent.observation_space)
    _check_space(name, "action_space", told.get("action_space"), agent.action_space)
    for key in ("action_mask", "group"):
        given, expected = told.get(key), getattr(agent, key)
        if given is not None and given != expected:
            raise _misfit(name, key, shortly(given), expected)
    most = told.get("max")
    if most is not None and (type(most) is not int or most > agent.max):
        raise _misfit(name, "max", shortly(most), agent.max)


def _check_space(name: str, key: str, given: Any, expected: Mapping[str, Any]) -> None:
    if given is None or given == expected:
        return
    wanted = space_to_json(space_from_json(expected))
    same = False
    # Sizes first: a space of another size is not built, however large it claims to be.
    if size_of(given) == size_of(wanted):
        with suppress(*BROKEN):
            same = space_to_json(space_from_json(given)) == wanted
    if not same:
        raise _misfit(name, key, _outline(given), wanted)


def _outline(given: Any) -> str:
    return f"{given!s:.300}"


def _misfit(name: str, key: str, got: str, expected: Any) -> Refused:
    return Refused(
        "contract",
        f"agent {shortly(name)}: {key} is {got}; the server plays with {expected}. Send what it was trained with, or serve a "
        "policy that was trained with yours.",
        409,
        where={"agent": name, "key": key},
        expected=expected,
    )
