"""The public course of a game of Leduc poker: who has put in what, who has folded, whose turn it is."""

from __future__ import annotations

from dataclasses import dataclass, field

from marl.envs.games.cards.betting import History

FOLD, CALL, RAISE = 0, 1, 2
ANTE, RAISE_BY, MOST_RAISES = 1, (2, 4), 2
ROUNDS = 2


@dataclass
class Course:
    """What everybody knows after some moves; ``play`` makes one more."""

    players: int
    rounds: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    movers: list[int] = field(default_factory=list)  # who made each of the moves of both rounds
    now: int = 0  # the round; 2 when both are played
    mover: int = 0
    stakes: int = ANTE  # what everybody who stays in has to put in
    raises: int = 0  # of this round
    calls: int = 0  # since the last raise of this round
    paid: list[int] = field(default_factory=list)
    folded: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.paid = [ANTE] * self.players
        self.folded = [False] * self.players

    @property
    def staying(self) -> int:
        """How many have not folded."""
        return self.players - sum(self.folded)

    @property
    def over(self) -> bool:
        return self.staying == 1 or self.now == ROUNDS

    @property
    def owes(self) -> bool:
        """Whether staying in costs the mover something."""
        return self.paid[self.mover] < self.stakes

    def legal(self) -> list[int]:
        if self.over:
            return []
        moves = [CALL]
        if self.owes:
            moves.insert(0, FOLD)  # nobody folds where checking is free
        if self.raises < MOST_RAISES:
            moves.append(RAISE)
        return moves

    def play(self, move: int) -> None:
        self.rounds[self.now].append(move)
        self.movers.append(self.mover)
        if move == FOLD:
            self.folded[self.mover] = True
        else:
            self._pay(raises=move == RAISE)
        if self.staying == 1:
            return
        if self._settled():
            self._next_round()
        else:
            self.mover = self._next_staying(self.mover + 1)

    def _pay(self, *, raises: bool) -> None:
        self.calls += 1
        if raises:
            self.stakes += RAISE_BY[self.now]
            self.raises += 1
            self.calls = 0
        self.paid[self.mover] = self.stakes

    def _settled(self) -> bool:
        """Everybody who stays in has put in the same: all have checked, or all but the raiser have called."""
        wanted = self.staying
        if self.raises:
            wanted -= 1
        return self.calls == wanted

    def _next_round(self) -> None:
        self.now += 1
        self.raises = self.calls = 0
        self.mover = self._next_staying(0)

    def _next_staying(self, player: int) -> int:
        while self.folded[player % self.players]:
            player += 1
        return player % self.players


def replay(history: History, players: int = 2) -> Course:
    """The course after these moves."""
    course = Course(players)
    for move in history:
        course.play(move)
    return course


def longest_round(players: int) -> int:
    """Moves: all but one check, the last one raises, all but one call, the last one raises, and all others call."""
    return 3 * players - 2
