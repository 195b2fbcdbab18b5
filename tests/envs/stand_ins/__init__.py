"""Small envs with the shapes of those of other packages: what trains on these trains on the originals."""

from __future__ import annotations

from tests.envs.stand_ins import joint_robots as robots_v1  # an alias that is no submodule

__all__ = ["robots_v1"]
