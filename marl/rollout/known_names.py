"""Names that a user registered in the driver, made known in the processes that play for it."""

from __future__ import annotations

from marl.envs.families import register_env_family
from marl.envs.registry import register_env
from marl.envs.wrappers import register_wrapper
from marl.policies.custom import register_classes
from marl.registry import import_module
from marl.rollout.config import RolloutSpec


def register_names(spec: RolloutSpec) -> None:
    """Make the names known in this process that the driver knows."""
    for name, creator in spec.registered.items():
        register_env(name, creator)
    for prefix, family in spec.registered_families.items():
        register_env_family(prefix, family.factory, family.form)
    for name, wrapper in spec.registered_wrappers.items():
        register_wrapper(name, wrapper)
    register_classes(spec.registered_classes)
    for module in spec.imports:
        import_module(module, "imports")
