"""Solvers of normal-form games, one file per concept. Every answer carries its NashConv."""

from marl.gametheory.solve.correlated import CorrelatedSolution as CorrelatedSolution
from marl.gametheory.solve.correlated import coarse_correlated as coarse_correlated
from marl.gametheory.solve.correlated import correlated as correlated
from marl.gametheory.solve.correlated import deviation_gains as deviation_gains
from marl.gametheory.solve.dynamics import RegretTrajectory as RegretTrajectory
from marl.gametheory.solve.dynamics import Trajectory as Trajectory
from marl.gametheory.solve.dynamics import fictitious_play as fictitious_play
from marl.gametheory.solve.dynamics import projected_replicator as projected_replicator
from marl.gametheory.solve.dynamics import regret_matching as regret_matching
from marl.gametheory.solve.dynamics import replicator as replicator
from marl.gametheory.solve.enumerate import Equilibria as Equilibria
from marl.gametheory.solve.enumerate import all_equilibria as all_equilibria
from marl.gametheory.solve.lemke_howson import lemke_howson as lemke_howson
from marl.gametheory.solve.nash import nash as nash
from marl.gametheory.solve.nash import pure_equilibria as pure_equilibria
from marl.gametheory.solve.qre import QuantalResponse as QuantalResponse
from marl.gametheory.solve.qre import logit_qre as logit_qre
from marl.gametheory.solve.solution import Solution as Solution
from marl.gametheory.solve.zero_sum import zero_sum as zero_sum
