"""What value critics take from ``joint_view``, under the name of its old place."""

from __future__ import annotations

from marl.algos.joint_view import JointFeatures, columns_by_kind, seats_in_order, team_rewards

__all__ = ["JointFeatures", "columns_by_kind", "seats_in_order", "team_rewards"]
