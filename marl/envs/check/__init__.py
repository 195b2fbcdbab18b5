"""Lints an env before training: plays it for a while and says what is wrong and how to mend it."""

from marl.envs.check.examine import check_env, examine
from marl.envs.check.findings import CATALOG, Problem
from marl.envs.check.report import Report

__all__ = ["CATALOG", "Problem", "Report", "check_env", "examine"]
