"""What ``marl serve`` plays with: policies of a run, a checkpoint, an export or a population, and whom they play."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from marl.data.space_json import space_to_json
from marl.data.task import AgentID, AgentType, PolicyID
from marl.envs.base import MultiAgentEnv
from marl.envs.external.contract import Contract, ExternalAgent
from marl.envs.external.env import ReportedEnv
from marl.envs.external.steps import Line
from marl.envs.registry import make_env
from marl.envs.vector.env_errors import close_all
from marl.envs.vector.layout import inner_space, kinds_of
from marl.envs.vector.vector_env import DictVector
from marl.envs.wrappers import Wrapping, wrap
from marl.errors import CheckpointError, ConfigError, SpaceMismatchError, UserError
from marl.mappers.mapper import Mapper, Patterns
from marl.play.export import Exported, exported_folders, read_exported, spaces_of
from marl.play.policy_sources import cast
from marl.play.write_export import export_policies
from marl.policies.policy import Policy
from marl.rollout.config import RolloutConfig
from marl.rollout.env_runner import EnvRunner
from marl.runs.saved import SavedRun
from marl.scenario.env import env_name
from marl.scenario.resolve import Setup
from marl.scenario.routing import candidates, example_agent
from marl.trust import only_modules


@dataclass(frozen=True)
class Served:
    """Policies and all that is needed to play with them at the other end of a network."""

    name: str  # of the env that they were trained in
    contract: Contract
    policies: Mapping[PolicyID, Policy]
    kinds: Mapping[PolicyID, int]
    agent_types: Sequence[AgentType]  # as the policies tell agents apart
    mapper: Mapper
    config: RolloutConfig
    trusted: Callable[[], AbstractContextManager[None]]
    export: Callable[[PolicyID], bytes]  # a zip of its files
    wrappers: Sequence[Wrapping] = ()
    teams: Sequence[int] | None = None
    algos: Mapping[PolicyID, str | None] = field(default_factory=dict)

    def env(self, line: Line | None = None) -> DictVector:
        """One copy of the env whose world is the client's, in the wrappers of the run."""
        inside = wrap(ReportedEnv(self.contract, line), self.wrappers, self.name)
        return DictVector([inside], self.name, with_state=False, kinds=self.agent_types)

    def runner(self, line: Line, policies: Mapping[PolicyID, Policy]) -> EnvRunner:
        """Plays with ``policies``, which stand for the ones that are served."""
        return EnvRunner(self.env(line), policies, self.kinds, self.mapper, self.config, teams=self.teams)

    def described(self) -> list[dict[str, Any]]:
        """What clients are told of the policies."""
        played = who_plays(self.mapper, self.agent_types)
        found = []
        for name, policy in self.policies.items():
            kind = self.agent_types[self.kinds[name]]
            about = {
                "policy": name,
                "algo": self.algos.get(name),
                "agents": played.get(name, []),
                "observation_space": space_to_json(kind.observation_space),
                "action_space": space_to_json(kind.action_space),
                "action_mask": kind.masked,
                "recurrent": policy.carry_size > 0,
            }
            found.append(about)
        return found


def load_served(path: str, allow: frozenset[str] = frozenset(), sources: Mapping[str, str] | None = None) -> Served:
    """What lies at a path: an export (one policy, ``DIR#name`` or a folder of several), or else a run or checkpoint.

    ``sources`` are policies from elsewhere, see ``play/policy_sources.py``.
    """
    folder, _, chosen = path.partition("#")
    place = Path(folder).expanduser()
    if not place.exists():
        raise CheckpointError(f"{path} does not exist. Give a run, a checkpoint or an exported policy.")
    with only_modules(allow):
        there = exported_folders(place)
    if there:
        if sources:
            raise ConfigError(
                "--policy lets other policies play in the env of a run, but an export has none. Serve the run, or put "
                "the policies into one folder."
            )
        return _from_exports(place, chosen or None, allow)
    if chosen:
        raise CheckpointError(f"{folder} is no export, so #{chosen} means nothing here. Serve it as a whole.")
    return _from_run(place, allow, sources or {})


def playing_config(config: RolloutConfig) -> RolloutConfig:
    """How clients' episodes are played: they end when the client says so, and take their time."""
    return config.model_copy(update={"horizon": None, "soft_horizon": False, "env_timeout_s": None})


def who_plays(mapper: Mapper, kinds: Sequence[AgentType]) -> dict[PolicyID, list[AgentID]]:
    """The agents, or patterns of agents, that each policy may be sent."""
    found: dict[PolicyID, list[AgentID]] = {}
    for kind in kinds:
        for seat in kind.agents:
            stem = seat.split("[")[0]
            for policy in candidates(mapper, example_agent(seat)):
                mine = found.setdefault(policy, [])
                if stem not in mine:
                    mine.append(stem)
    return found


# -- runs --------------------------------------------------------------------------------------------------------------


def _from_run(path: Path, allow: frozenset[str], sources: Mapping[str, str]) -> Served:
    remedy = "Export its policies by trainer.export_model(DIR), and serve DIR."
    run = SavedRun.open(path, allow, remedy=remedy)
    setup = _resolved(run)
    own = [name for name in setup.policies if name not in sources]
    policies = run.policies(setup, own, "Say where it comes from: --policy {name}=PATH.")
    with run.trusted():
        playing = cast(setup, policies, sources)
        spec = setup.rollout
        base = make_env(spec.env, spec.env_config)
        contract = contract_of(base)
        close_all([base], env_name(spec.env))
        played = who_plays(playing.mapper, setup.task.kinds)
        served = Served(
            name=env_name(spec.env),
            contract=contract,
            policies={name: policy for name, policy in playing.policies.items() if name in played},
            kinds=playing.kinds,
            agent_types=setup.task.kinds,
            mapper=playing.mapper,
            config=playing_config(spec.config),
            trusted=run.trusted,
            export=partial(_zipped, run, setup),
            wrappers=spec.wrappers,
            teams=spec.teams,
            algos={name: role.preset.name for name, role in setup.roles.items()},
        )
        _check_same_agents(served)
    return served


def _resolved(run: SavedRun) -> Setup:
    try:
        return run.resolve()
    except UserError as error:
        raise type(error)(
            f"{error} (Serving a run builds its env once, to know its spaces. Where the env is not installed, serve an "
            f"export: marl export {run.folder} --out DIR.)"
        ) from error


def _check_same_agents(served: Served) -> None:
    """Wrappers may ask an env for more than its spaces; then what they make of ours is not what was trained."""
    mine = _seats(kinds_of(served.env().envs[0]))
    trained = _seats(served.agent_types)
    if mine != trained:
        raise SpaceMismatchError(
            f"the wrappers of the run ({', '.join(used.name for used in served.wrappers)}) make other agents of an env "
            f"that plays over the network than of {served.name!r}. Export the policies and serve them without the wrappers: "
            "clients then show what the policies see."
        )


def _seats(kinds: Sequence[AgentType]) -> dict[AgentID, tuple[Any, ...]]:
    found: dict[AgentID, tuple[Any, ...]] = {}
    for kind in kinds:
        found |= dict.fromkeys(kind.agents, spaces_of(kind))
    return found


def contract_of(env: MultiAgentEnv) -> Contract:
    """The agents of an env and their spaces, as clients are to keep to them."""
    if isinstance(env, ReportedEnv):
        return env.contract
    names: Mapping[str, int] = env.max_agents
    if env.possible_agents:
        names = dict.fromkeys(env.possible_agents, 1)
    agents: dict[str, ExternalAgent] = {}
    for name, most in names.items():
        example = name.replace("*", "0")
        seen, masked = inner_space(env.observation_space(example))
        agents[name] = _external(seen, env.action_space(example), masked, most)
    return Contract(agents)


def _external(seen: Any, done: Any, masked: bool, most: int) -> ExternalAgent:
    return ExternalAgent(
        observation_space=space_to_json(seen), action_space=space_to_json(done), action_mask=masked, max=most
    )


def _zipped(run: SavedRun, setup: Setup, name: PolicyID) -> bytes:
    with tempfile.TemporaryDirectory() as folder, run.trusted():
        (made,) = export_policies(Path(folder), setup, {name: run.weights[name]}, [name])
        return zip_of(made)


def zip_of(folder: Path) -> bytes:
    """The files of an exported policy."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.iterdir()):
            if file.is_file():
                archive.write(file, file.name)
    return content.getvalue()


# -- exports -----------------------------------------------------------------------------------------------------------


def _from_exports(path: Path, chosen: PolicyID | None, allow: frozenset[str]) -> Served:
    trusted = partial(only_modules, allow)
    policies: dict[PolicyID, Policy] = {}
    kinds: dict[PolicyID, int] = {}
    folders: dict[PolicyID, Path] = {}
    algos: dict[PolicyID, str | None] = {}
    with trusted():
        playing = _exports_that_play(path, chosen)
        contract, mapper = _who_is_played(path, playing)
        agent_types = kinds_of(ReportedEnv(contract))
        spaces_there = [spaces_of(kind) for kind in agent_types]
        for one in playing:
            policies[one.name] = one.build()
            kinds[one.name] = spaces_there.index(spaces_of(one.kind))
            folders[one.name], algos[one.name] = one.folder, one.about["algo"]
    return Served(
        name=str(playing[0].about["env"]),
        contract=contract,
        policies=policies,
        kinds=kinds,
        agent_types=agent_types,
        mapper=mapper,
        config=playing_config(RolloutConfig(**playing[0].units.model_dump())),
        trusted=trusted,
        export=lambda name: zip_of(folders[name]),
        algos=algos,
    )


def _exports_that_play(path: Path, chosen: PolicyID | None) -> list[Exported]:
    there = exported_folders(path)
    names = list(there)
    if chosen is not None:
        names = [chosen]
    exported = [read_exported(path, name) for name in names]
    playing = [one for one in exported if played_by(one)]
    if not playing:
        raise CheckpointError(f"{path} holds {', '.join(there)}, which play nobody. Export the policies that play.")
    _check_units(playing)
    return playing


def played_by(exported: Exported) -> list[AgentID]:
    """Seats that an exported policy plays; those that were written before this was noted play all of their kind."""
    seats = exported.about.get("plays", exported.kind.agents)
    known = set(exported.kind.agents)
    return [str(seat) for seat in seats if seat in known]


def _who_is_played(path: Path, playing: Sequence[Exported]) -> tuple[Contract, Mapper]:
    """All agents of all policies in their order; an agent that several play is played by one of them, drawn per episode."""
    players: dict[str, list[PolicyID]] = {}
    for one in playing:
        for stem in _stems(played_by(one)):
            players.setdefault(stem, []).append(one.name)
    _check_who_plays_is_known(path, playing, players)
    agents: dict[str, ExternalAgent] = {}
    nobodys: list[str] = []
    for one in playing:
        kind = one.kind
        for stem, most in _stems(kind.agents).items():
            if stem in players:
                agents[stem] = _external(kind.observation_space, kind.action_space, kind.masked, most)
            else:
                nobodys.append(stem)
    _check_seats_kept(path, playing, nobodys)
    return Contract(agents), Patterns(players)


def _check_who_plays_is_known(
    path: Path, playing: Sequence[Exported], players: Mapping[str, Sequence[PolicyID]]
) -> None:
    """Files that were written before they said whom they play mean everybody of their kind."""
    unsure = {one.name for one in playing if "plays" not in one.about}
    for stem, names in players.items():
        if len(names) > 1 and not unsure.isdisjoint(names):
            raise ConfigError(
                f"{path}: {' and '.join(names)} may all play {stem!r}, and their files do not say who does. Export them "
                f"again, or serve one: {path}#{names[0]}."
            )


def _check_seats_kept(path: Path, playing: Sequence[Exported], nobodys: Sequence[str]) -> None:
    """A policy that is shown which agent it plays knows it by its place among all."""
    for one in playing:
        if one.spec.agent_id and set(nobodys) & set(_stems(one.kind.agents)):
            raise ConfigError(
                f"{path}: {one.name!r} is shown which agent it plays (agent_id), but nobody plays {', '.join(nobodys)}, so "
                "places would shift. Serve all policies of the run together."
            )


def _stems(seats: Sequence[str]) -> dict[str, int]:
    """``car_*[0]``, ``car_*[1]`` are two agents of ``car_*``."""
    found: dict[str, int] = {}
    for seat in seats:
        stem = seat.split("[")[0]
        found[stem] = found.get(stem, 0) + 1
    return found


def _check_units(playing: Sequence[Exported]) -> None:
    for one in playing[1:]:
        if one.units != playing[0].units:
            raise ConfigError(
                f"{one.name!r} and {playing[0].name!r} were trained with different normalize_actions or clip_actions, so "
                "their actions mean different things. Serve them one by one: DIR#name."
            )
