"""The keys of ``loggers: [{wandb: {...}}]`` and ``{mlflow: {...}}``; the packages themselves are not needed to check them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from marl.config import Config


class WandbKeys(Config):
    """Where a run stands in Weights & Biases."""

    project: str = Field("marl", description="The project of the run.")
    entity: str | None = Field(None, description="User or team; default: that of your account.")
    name: str | None = Field(None, description="Name of the run; default: that of its directory.")
    group: str | None = Field(None, description="Group of the run; default: the name of the scenario.")
    tags: list[str] = Field([], description="Tags of the run.")
    notes: str | None = Field(None, description="A longer description.")
    mode: Literal["offline", "online", "disabled"] | None = Field(
        None,
        description="offline: into the run directory, for `wandb sync`; online: also to the server. Default: WANDB_MODE of "
        "the environment, else offline.",
    )
    media: bool = Field(True, description="Also pictures, films and histograms.")


class MlflowKeys(Config):
    """Where a run stands in MLflow."""

    tracking_uri: str | None = Field(
        None,
        description="Server or database. Default: MLFLOW_TRACKING_URI of the environment, else a database in the run "
        "directory, mlflow/mlflow.db.",
    )
    experiment: str | None = Field(None, description="The experiment; default: the name of the scenario, else marl.")
    name: str | None = Field(None, description="Name of the run; default: that of its directory.")
    tags: dict[str, str] = Field({}, description="Tags of the run.")
    media: bool = Field(True, description="Also pictures and films, as artifacts.")
