"""Uploaded pictures: read with bounds, scaled down, and encoded again, so that no byte of the file itself reaches others."""

from __future__ import annotations

import io
import warnings

from PIL import Image, ImageOps

from cobblestone.domain.errors import CobblestoneError

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
MAX_BYTES = 5_000_000
MAX_PIXELS = 25_000_000
#: Pixels of the longer side of what is kept.
SIDE = 320
MEDIA_TYPE = "image/webp"


class BadPicture(CobblestoneError):
    """A file is not an acceptable picture."""


def small_picture(data: bytes) -> bytes:
    """Return a small WebP picture of the first image in a file, without the file's other data (place, camera, programs).

    Raises:
        BadPicture: it is too large, or not a picture of one of `FORMATS`.
    """
    if len(data) > MAX_BYTES:
        raise BadPicture(f"{len(data)} bytes exceed the limit of {MAX_BYTES} for a picture.")
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
        raise BadPicture("It is not a readable picture.") from error
    return written.getvalue()
