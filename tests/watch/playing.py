"""Games with people over the API: opening them, and asking with this or that token."""

from __future__ import annotations

from typing import Any

import httpx

TICTACTOE = "pettingzoo:classic/tictactoe_v3"


class Player:
    """Somebody with a token, at one game or at none."""

    def __init__(self, url: str, token: str, game: str = "") -> None:
        self.client = httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=300)
        self.url, self.game = url, game

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return self.client.request(method, path, json=body)

    def post(self, path: str, body: Any = None) -> Any:
        """What is answered to something that is taken."""
        answer = self.ask("POST", path, body or {})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, path: str, body: Any = None) -> dict[str, Any]:
        """The error of something that is not."""
        answer = self.ask("POST", path, body or {})
        assert answer.status_code >= 400, answer.text
        error: dict[str, Any] = answer.json()["error"]
        return error

    # -- at a game -------------------------------------------------------------------------------------------------

    @property
    def here(self) -> str:
        return f"/api/play/games/{self.game}"

    def see(self) -> Any:
        answer = self.ask("GET", self.here)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def move(self, action: Any, **more: Any) -> Any:
        return self.post(f"{self.here}/move", {"action": action, "turn": self.see()["turn"], **more})

    def undo(self) -> Any:
        return self.post(f"{self.here}/undo")

    def opens(self, **game: Any) -> dict[str, str]:
        """A new game; returns the tokens of its guests."""
        told = self.post("/api/play/games", game)
        self.game = told["game"]
        invite: dict[str, str] = told["invite"]
        return invite

    def guest(self, secret: str) -> Player:
        return Player(self.url, secret, self.game)

    def closes(self) -> None:
        self.ask("DELETE", self.here)


def first_legal(seen: Any, agent: str) -> int:
    """The first action that is legal for an agent."""
    legal = seen["views"][agent]["legal"]
    return 0 if legal is None else legal[0].index(True)
