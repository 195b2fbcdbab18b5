"""An env outside of the package, which a checkpoint may only name if that is allowed."""

from tests.small_envs import Scripted, Step


class Coins(Scripted):
    """One step; each of two agents is paid 1."""

    def __init__(self, config: dict[str, object]) -> None:
        agents = ("a_0", "a_1")
        super().__init__(agents, [Step(rewards=dict.fromkeys(agents, 1.0), terminated=[*agents, "__all__"])], agents)
