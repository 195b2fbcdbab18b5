"""What envs draw, as files and on the screen: GIF and MP4 videos, a window.

An env gives a picture (height x width x 3, uint8) or a text; a text becomes a picture in a typewriter's font, so every
env that draws anything can be filmed. The first picture says how large a video is; later ones of another size are put
onto its canvas, made smaller where they do not fit.
"""

from __future__ import annotations

import importlib.util
import io
import os
import sys
import textwrap
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from marl.data.task import Array
from marl.envs.batched import BatchedEnv
from marl.envs.vector.env_errors import guarded
from marl.errors import ConfigError
from marl.storage import storing, write_atomically

Picture: TypeAlias = NDArray[np.uint8]

TEXT_RATE, PICTURE_RATE = 2.0, 15.0  # frames per second, unless the user says otherwise
FONT_SIZE, LINE_HEIGHT, BORDER = 15, 20, 12  # pixels
LONGEST_LINE = 100  # characters
INK, PAPER = (25, 25, 25), (255, 255, 255)


def picture_by(env: BatchedEnv) -> Array | str | None:
    """What the first copy of an env draws; whatever goes wrong in it is an ``EnvError``."""
    drawn: Array | str | None = guarded(lambda: env.render(0), "render", lambda: f"env {env.name!r}")
    return drawn


def picture_of(drawn: Array | str | None, env: str) -> Picture:
    """A picture from what an env's ``render`` gave."""
    if isinstance(drawn, str):
        return text_picture(drawn)
    if drawn is None:
        raise ConfigError(
            f"env {env!r} draws nothing, so it cannot be shown or filmed. Give it a render() that returns a picture or a "
            "text; envs of Gymnasium and PettingZoo have to know render_mode rgb_array or ansi."
        )
    found = np.asarray(drawn)
    if found.ndim != 3 or found.shape[2] not in (3, 4) or found.size == 0:
        raise ConfigError(
            f"env {env!r} draws an array of shape {found.shape}; a picture is (height, width, 3). Mend its render()."
        )
    if found.dtype != np.uint8:
        raise ConfigError(
            f"env {env!r} draws pictures of {found.dtype}; expected uint8, from 0 to 255. Mend its render()."
        )
    return np.ascontiguousarray(found[:, :, :3])


def text_picture(text: str) -> Picture:
    """A text in a typewriter's font; the size grows in steps, so that small changes of the text do not change it."""
    from PIL import Image, ImageDraw

    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, LONGEST_LINE, **_KEEP) or [""]]
    columns = -(-max([*map(len, lines), 40]) // 20) * 20
    rows = -(-max(len(lines), 4) // 4) * 4
    font, width = _font()
    image = Image.new("RGB", (round(columns * width) + 2 * BORDER, rows * LINE_HEIGHT + 2 * BORDER), PAPER)
    pen = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        pen.text((BORDER, BORDER + number * LINE_HEIGHT), line, INK, font)
    return np.asarray(image, np.uint8)


_KEEP: dict[str, Any] = {"drop_whitespace": False, "replace_whitespace": False}


@cache
def _font() -> tuple[Any, float]:
    """The typewriter's font that comes with matplotlib, and the width of its letters."""
    from PIL import ImageFont

    # Found without importing matplotlib, which refuses to be imported where MPLBACKEND is wrong.
    found = importlib.util.find_spec("matplotlib")
    assert found is not None
    assert found.origin is not None
    fonts = Path(found.origin).parent / "mpl-data" / "fonts" / "ttf"
    font = ImageFont.truetype(fonts / "DejaVuSansMono.ttf", FONT_SIZE)
    return font, font.getlength("0")


# -- files -------------------------------------------------------------------------------------------------------------


class Video:
    """A GIF or MP4 file, by the end of its name. It is there when it is closed, whole or not at all."""

    def __init__(self, path: Path, fps: float | None = None) -> None:
        self.path, self.fps = path.expanduser(), fps
        self.frames = 0
        self._writer: Any = None
        self._size = (0, 0)
        # imageio keeps all frames of a GIF until the end.
        self._gif = io.BytesIO() if self.path.suffix.lower() == ".gif" else None
        if self.path.suffix.lower() not in (".gif", ".mp4"):
            raise ConfigError(f"a video is called NAME.gif or NAME.mp4, but {str(path)!r} ends in neither. Rename it.")
        if self.path.suffix.lower() == ".mp4" and not can_write_mp4():
            raise ConfigError(
                f"{path}: MP4 files need the package imageio-ffmpeg, which is not installed. "
                "Install it by pip install 'marl[video]', or choose a name that ends in .gif."
            )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot write the video {path}: {error}. Choose another place.") from error
        if self.path.is_dir() or not os.access(self.path.parent, os.W_OK):
            raise ConfigError(f"cannot write the video {path}. Choose a file name in a folder that can be written to.")

    @property
    def _temporary(self) -> Path:
        return self.path.with_name(f".{os.getpid()}.{self.path.name}")

    def add(self, drawn: Array | str | None, env: str) -> None:
        """One more frame."""
        picture = picture_of(drawn, env)
        if self._writer is None:
            height, width = picture.shape[:2]
            self._size = (height + height % 2, width + width % 2)  # MP4 wants even numbers
            self._writer = self._open(self.fps or (TEXT_RATE if isinstance(drawn, str) else PICTURE_RATE))
        with storing(self.path):
            self._writer.append_data(fitted(picture, *self._size))
        self.frames += 1

    def _open(self, fps: float) -> Any:
        import imageio

        if self._gif is not None:
            return imageio.get_writer(self._gif, "GIF", duration=1000 / fps, loop=0)
        with storing(self.path):
            # Blocks of 16, which is usual, would stretch pictures to the next multiple.
            return imageio.get_writer(self._temporary, fps=fps, macro_block_size=2)

    def close(self) -> None:
        """Bring it to the disk; without a frame there is no file."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            if self._gif is not None:
                writer.close()
                write_atomically(self.path, self._gif.getvalue())
                return
            with storing(self.path):
                try:
                    writer.close()
                    _check_whole(self._temporary)
                    os.replace(self._temporary, self.path)
                except OSError:
                    self._temporary.unlink(missing_ok=True)
                    raise

    def discard(self) -> None:
        """Leave nothing behind."""
        if self._writer is not None:
            with suppress(OSError):  # a full disk has been told already
                self._writer.close()
            self._writer = None
        self._temporary.unlink(missing_ok=True)

    def __enter__(self) -> Video:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del error, trace
        # Ctrl-C ends a long rollout, and what was filmed until then is wanted.
        (self.discard if kind is not None and not issubclass(kind, KeyboardInterrupt) else self.close)()


def _check_whole(film: Path) -> None:
    """ffmpeg writes the table of contents last and says nothing of a full disk."""
    if b"moov" not in film.read_bytes():
        raise OSError("ffmpeg could not write all of it; is the disk full?")


def can_write_mp4() -> bool:
    return importlib.util.find_spec("imageio_ffmpeg") is not None


def fitted(picture: Picture, height: int, width: int) -> Picture:
    """The picture on a canvas of this size, in its upper left corner; a larger one is made smaller."""
    if picture.shape[:2] == (height, width):
        return picture
    share = min(height / picture.shape[0], width / picture.shape[1])
    if share < 1:
        from PIL import Image

        size = (max(1, int(picture.shape[1] * share)), max(1, int(picture.shape[0] * share)))
        picture = np.asarray(Image.fromarray(picture).resize(size), np.uint8)
    canvas = np.full((height, width, 3), PAPER, np.uint8)
    canvas[: picture.shape[0], : picture.shape[1]] = picture
    return canvas


# -- the screen --------------------------------------------------------------------------------------------------------


def has_display() -> bool:
    """Whether a window could be opened."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


class Screen:
    """Shows what an env draws: texts by ``say``, pictures in a window."""

    def __init__(self, say: Any = print, fps: float | None = None) -> None:
        self.say, self.fps = say, fps or PICTURE_RATE
        self._image: Any = None

    def add(self, drawn: Array | str | None, env: str) -> None:
        if isinstance(drawn, str):
            self.say(drawn)
            return
        picture = picture_of(drawn, env)
        if self._image is None:
            self._image = _new_window(env, picture)
        self._image.set_data(picture)
        self._image.figure.canvas.draw_idle()
        self._image.figure.canvas.start_event_loop(1 / self.fps)

    def close(self) -> None:
        if self._image is not None:
            import matplotlib.pyplot

            matplotlib.pyplot.close(self._image.figure)
            self._image = None


def check_screen(drawn: Array | str | None, env: str) -> None:
    """Refuse to show pictures where there is no display."""
    if not isinstance(drawn, str):
        picture_of(drawn, env)
        if not has_display():
            raise ConfigError(
                f"env {env!r} draws pictures, and there is no display to open a window on (DISPLAY is not set). Film it "
                "instead: marl rollout ... --video out.gif, or record_env: true while training."
            )


def _new_window(env: str, picture: Picture) -> Any:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(num=env)
    axes.set_axis_off()
    image = axes.imshow(picture)
    figure.tight_layout()
    figure.show()
    return image
