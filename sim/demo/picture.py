"""A picture as text for a terminal, or as a PNG."""

import io
import os
from collections.abc import Mapping
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from sim.demo.scenes import Picture
from sim.support.command import CommandError
from sim.support.entry import missing_of

__all__ = ["ImageError", "Style", "as_text", "colours", "png", "style_of"]

_SHADES = np.array(list(" .:-=+*#%@"))
_WIDE = 640
"""Least width of a file's picture in pixels; smaller pictures are magnified."""
_CUBE = 16
"""The first of the 216 terminal colours, with 6 levels of red, green and blue each."""


class ImageError(CommandError):
    """A picture that cannot be written. The message is one line with the reason."""


class Style:
    """The terminal's style of pictures. A character shows two pixels, one above the other."""

    PLAIN = "plain"
    CUBE = "256 colours"
    TRUE = "24 bits"


def style_of(stream: TextIO, environment: Mapping[str, str] = os.environ) -> str:
    """Returns the style for an output: plain if it is no terminal, or if NO_COLOR is not empty
    (no-color.org).
    """
    colour = (
        stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
    )
    if not colour or "utf" not in (stream.encoding or "").lower():
        return Style.PLAIN
    return Style.TRUE if environment.get("COLORTERM") in ("truecolor", "24bit") else Style.CUBE


def colours(picture: Picture) -> NDArray[np.uint8]:
    """Converts a picture to height x width x 3 bytes of red, green and blue."""
    parts = ((picture >> 5 & 7) / 7, (picture >> 2 & 7) / 7, (picture & 3) / 3)
    return np.rint(np.stack(parts, axis=-1) * 255).astype(np.uint8)


def as_text(picture: Picture, style: str) -> str:
    """Returns the picture as lines of text, each for two rows of pixels."""
    rows = colours(np.pad(picture, ((0, picture.shape[0] % 2), (0, 0))))
    upper, lower = rows[::2], rows[1::2]
    if style == Style.PLAIN:
        light = (upper.astype(float) + lower).mean(axis=2) / (2 * 255)
        shades = _SHADES[np.rint(light * (len(_SHADES) - 1)).astype(int)]
        return "".join("".join(line).rstrip() + "\n" for line in shades)
    lines = []
    for two in zip(upper.tolist(), lower.tolist(), strict=True):
        line, before = [], None
        for pair in zip(*two, strict=True):
            if pair != before:
                line.append(f"\x1b[{_code(38, pair[0], style)};{_code(48, pair[1], style)}m")
            line.append("\N{UPPER HALF BLOCK}")
            before = pair
        lines.append("".join([*line, "\x1b[0m\n"]))
    return "".join(lines)


def _code(layer: int, colour: tuple[int, int, int], style: str) -> str:
    """Returns the escape code for the colour of a character, or of its background."""
    if style == Style.TRUE:
        return f"{layer};2;" + ";".join(map(str, colour))
    red, green, blue = (round(part * 5 / 255) for part in colour)
    return f"{layer};5;{_CUBE + 36 * red + 6 * green + blue}"


def check_png() -> None:
    """Raises ImageError if PNGs cannot be written."""
    if (missing := missing_of("picture")) is not None:
        raise ImageError(missing)


def png(rgb: NDArray[np.uint8]) -> bytes:
    """Encodes height x width x 3 bytes as PNG; small pictures are magnified by an integer."""
    check_png()
    from PIL import Image

    scale = -(-_WIDE // rgb.shape[1])
    content = io.BytesIO()
    Image.fromarray(rgb.repeat(scale, 0).repeat(scale, 1)).save(content, "PNG", optimize=True)
    return content.getvalue()
