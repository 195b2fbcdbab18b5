"""Names that things of marl had before they were moved: found, told, and trusted no more than the new ones."""

from __future__ import annotations

import importlib
import logging

import pytest

from marl.envs.registry import ENV, make_env
from marl.envs.wrappers import WRAPPER
from marl.errors import ConfigError
from marl.old_names import MODULES, OBJECTS, _tell, current_name, with_current_names
from marl.policies.scripted import SCRIPTED
from marl.registry import import_module, load_object, only_modules

MOVED = {
    "marl.envs.hierarchy.world:HierarchicalEnv": "marl.envs.hierarchy.env:HierarchicalEnv",
    "marl.envs.foreign.copies:GymnasiumCopies": "marl.envs.adapters.copies:GymnasiumCopies",
    "marl.envs.foreign.gymnasium:GymnasiumWorld": "marl.envs.adapters.gymnasium:GymnasiumEnv",
    "marl.envs.foreign.pettingzoo:ParallelWorld": "marl.envs.adapters.pettingzoo:PettingZooParallelEnv",
    "marl.envs.joint:GroupedWorld": "marl.envs.wrappers.joint:GroupedEnv",
    "marl.envs.partial:KeepEntries": "marl.envs.wrappers.partial:KeepEntries",
    "marl.envs.lifting.single_lane:SingleLane": "marl.envs.vector.unbatched:SingleLane",
    "marl.envs.games.particles.fleeing:flee": "marl.envs.games.particles.scripted_prey:flee",
    "marl.data.callbacks:Callbacks": "marl.callbacks.callbacks:Callbacks",
    "marl.training.signs:Signs": "marl.testing.sign_env:Signs",
}


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_stands_for_what_it_stood_for(old: str) -> None:
    assert current_name(old) == MOVED[old]
    module, name = MOVED[old].split(":")
    assert getattr(importlib.import_module(module), name).__name__ == name


def test_everything_in_the_tables_is_there() -> None:
    for module in MODULES.values():
        importlib.import_module(module)
    for place, name in OBJECTS.items():
        assert hasattr(importlib.import_module(place.split(":")[0]), name), place


@pytest.mark.parametrize(
    "name",
    ["marl.envs.jointly:X", "marl.envs.foreigners:X", "mine.marl.envs.joint:X", "matrix_game", "pettingzoo:mpe2/x"],
)
def test_other_names_stay_as_they_are(name: str) -> None:
    assert current_name(name) == name


def test_an_old_name_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    _tell.cache_clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            load_object("marl.envs.partial:KeepEntries", WRAPPER)
    assert [record.message for record in caplog.records] == [
        "marl.envs.partial:KeepEntries is called marl.envs.wrappers.partial:KeepEntries now. Use the new name in scenarios."
    ]


def test_a_file_may_use_old_names_of_what_it_may_use_anyway() -> None:
    with only_modules(frozenset()):
        assert load_object("marl.training.signs:Signs", ENV).__name__ == "Signs"  # type: ignore[attr-defined]
        assert load_object("marl.envs.games.particles.fleeing:flee", SCRIPTED)
        import_module("marl.envs.foreign.copies", "imports")


@pytest.mark.parametrize(
    "name",
    [
        "marl.envs.foreign.copies:partial",  # what a module only imports
        "marl.envs.foreign.vmas:vmas_world",  # a function among the envs
        "marl.data.callbacks:Callbacks",  # another sort
        "marl.training.signs:EnvError",
    ],
)
def test_an_old_name_opens_nothing_that_the_new_one_does_not(name: str) -> None:
    with only_modules(frozenset()):
        with pytest.raises(ConfigError, match="comes from a file, which may name of marl only"):
            load_object(name, ENV)
        with pytest.raises(ConfigError, match="comes from a file, which may name of marl only"):
            load_object(current_name(name), ENV)


def test_what_the_user_typed_under_its_old_name_is_his_own_word() -> None:
    name = "marl.envs.foreign.vmas:vmas_world"  # a function, which a file may not name
    with only_modules(frozenset(), [name]):
        assert callable(load_object(name, ENV))


def test_names_are_brought_up_to_date_wherever_they_stand_in_a_scenario() -> None:
    raw = {
        "wrappers": [{"marl.envs.partial:KeepEntries": {"keep": [1]}}],
        "imports": ["marl.envs.foreign.vmas"],
        "seed": 3,
    }
    assert with_current_names(raw) == {
        "wrappers": [{"marl.envs.wrappers.partial:KeepEntries": {"keep": [1]}}],
        "imports": ["marl.envs.adapters.vmas"],
        "seed": 3,
    }


def test_a_scenario_of_the_users_own_may_use_an_old_name() -> None:
    env = make_env("marl.training.signs:Signs", {})
    try:
        assert type(env).__module__.startswith("marl.")
    finally:
        env.close()
