"""What the view ``explain`` asks for."""

from __future__ import annotations

from fastapi import APIRouter

from marl.watch.desk import Desk


def add(api: APIRouter, desk: Desk) -> None:
    del api, desk
