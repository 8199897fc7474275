"""Pictures: size, kind, and what they look like, as a perceptual hash and a small copy.

Two pictures that look the same have hashes close to each other whatever their format, compression or size. Sizes are
checked before anything is unpacked. Used by verifiers, the diff and the tool servers.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from envkit.office.gate import identify
from envkit.office.problem import Problem, Unreadable

__all__ = ["Picture", "hash_distance", "read_image"]

MAX_PIXELS = 80_000_000
_FORMATS = {"png": "PNG", "jpeg": "JPEG", "gif": "GIF", "bmp": "BMP", "tiff": "TIFF", "webp": "WEBP"}
#: The side of the small copy that places of differences are found in.
SMALL = 32


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture.

    Attributes:
        look: The perceptual hash, 64 bits; -1 for a picture of one colour, which has none.
        small: Its copy of 32 x 32 points in RGB, on white where it is transparent.
        pixels: SHA-256 of its size and points.
        transparent: Whether any point is.
        frames: Pictures in the file (an animation, pages of a TIFF).
    """

    format: str
    width: int
    height: int
    look: int
    small: bytes
    pixels: str
    transparent: bool
    frames: int


def read_image(data: bytes) -> Picture:
    """Reads a PNG, JPEG, GIF, BMP, TIFF or WebP file. Raises `Unreadable`."""
    if not data:
        raise Unreadable(Problem.EMPTY, "it has 0 bytes")
    kind = _FORMATS.get(identify(data))
    if kind is None:
        raise Unreadable(Problem.NOT_THIS_FORMAT, f"it is no picture of a known kind: it begins with {data[:8]!r}")
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data), formats=[kind]) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise Unreadable(Problem.TOO_BIG, f"it is {image.width} x {image.height} points large")
                frames = int(getattr(image, "n_frames", 1))
                clear = image.convert("RGBA")
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise Unreadable(Problem.CORRUPT, f"it is broken or cut off: {error}") from error
    lowest: Any = clear.getchannel("A").getextrema()[0]
    flat = Image.new("RGB", clear.size, "white")
    flat.paste(clear, mask=clear.getchannel("A"))
    pixels = hashlib.sha256(f"{flat.size}".encode() + flat.tobytes()).hexdigest()
    small = flat.resize((SMALL, SMALL), Image.Resampling.BOX).tobytes()
    return Picture(kind.lower(), flat.width, flat.height, _look(flat), small, pixels, lowest < 255, frames)


@lru_cache(maxsize=1)
def _cosines() -> Any:
    """The matrix of a discrete cosine transform of 32 points, its eight lowest frequencies but the constant."""
    import numpy as np

    points = np.arange(32)
    return np.cos(np.pi * np.outer(np.arange(8), 2 * points + 1) / 64)


def _look(image: Any) -> int:
    import numpy as np
    from PIL import Image

    grey = np.asarray(image.convert("L").resize((32, 32), Image.Resampling.LANCZOS), dtype=float)
    if grey.max() - grey.min() < 4:
        return -1
    low = (_cosines() @ grey @ _cosines().T).ravel()
    bits = low > np.median(low[1:])
    return int("".join("1" if bit else "0" for bit in bits), 2)


def hash_distance(a: int, b: int) -> int:
    """Bits of 64 in which two looks differ; up to 8 is the same picture. 64 for one colour against a picture."""
    if a < 0 or b < 0:
        return 0 if a == b else 64
    return (a ^ b).bit_count()
