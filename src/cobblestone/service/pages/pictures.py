"""Pictures that people send: read with bounds, made small, and written anew: nothing of the file itself reaches others."""

from __future__ import annotations

import io
import warnings

from PIL import Image, ImageOps

from cobblestone.domain.errors import CobblestoneError

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
MAX_BYTES = 5_000_000
MAX_PIXELS = 25_000_000
SIDE = 320
"""Pixels of the longer side of what is kept."""
MEDIA_TYPE = "image/webp"


class BadPicture(CobblestoneError):
    """A file is not a picture that can be taken."""


def small_picture(data: bytes) -> bytes:
    """Return a small WebP picture of the first image in a file; what else the file holds (place, camera, programs) is gone.

    Raises:
        BadPicture: it is too large, or not a picture of one of `FORMATS`.
    """
    if len(data) > MAX_BYTES:
        raise BadPicture(f"{len(data)} bytes are more than the {MAX_BYTES} of a picture.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of broken metadata, which is not kept
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                # The head says the size: nothing is unpacked before it is known to be small enough.
                if image.width * image.height > MAX_PIXELS:
                    raise BadPicture(f"{image.width} x {image.height} pixels are too many.")
                image.draft("RGB", (2 * SIDE, 2 * SIDE))
                upright = ImageOps.exif_transpose(image)
                kept = upright.convert("RGBA" if upright.has_transparency_data else "RGB")
        kept.thumbnail((SIDE, SIDE))
        written = io.BytesIO()
        Image.frombytes(kept.mode, kept.size, kept.tobytes()).save(written, "WEBP", quality=82)
    except BadPicture:
        raise
    except Exception as error:  # a decoder meets anything in a stranger's file, and says it in many ways
        raise BadPicture("It is not a picture that can be read.") from error
    return written.getvalue()
