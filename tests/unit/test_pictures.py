"""Pictures of strangers: made small, written anew, and bounded before they are unpacked."""

from __future__ import annotations

import io
import random
import struct
import zlib

import pytest
from PIL import Image

from cobblestone.service.pages.pictures import FORMATS, MAX_BYTES, SIDE, BadPicture, small_picture


def drawn(size: tuple[int, int], kind: str = "PNG", mode: str = "RGB", **options: object) -> bytes:
    file = io.BytesIO()
    Image.effect_noise(size, 60).convert(mode).save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("size", [(10, 10), (1000, 400), (321, 2000)])
def test_every_kind_becomes_a_small_webp_of_the_same_shape(kind: str, size: tuple[int, int]) -> None:
    made = Image.open(io.BytesIO(small_picture(drawn(size, kind))))
    assert made.format == "WEBP"
    assert max(made.size) == min(SIDE, max(size))
    assert made.width / made.height == pytest.approx(size[0] / size[1], rel=0.02)


def test_transparency_stays() -> None:
    file = io.BytesIO()
    Image.new("RGBA", (50, 50), (200, 0, 0, 90)).save(file, "PNG")
    made = Image.open(io.BytesIO(small_picture(file.getvalue())))
    assert made.getchannel("A").getextrema() == (90, 90)


def test_nothing_but_the_picture_is_kept_and_it_stands_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    exif[0x010E] = "at home, 48.14 17.10"
    made = small_picture(drawn((400, 200), "JPEG", exif=exif, comment=b"my secret"))
    assert b"secret" not in made
    assert b"48.14" not in made
    picture = Image.open(io.BytesIO(made))
    assert not picture.getexif()
    assert picture.height > picture.width


def huge_png(width: int, height: int) -> bytes:
    """The head of a picture that would unpack to very much, in a hundred bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0" * 100))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"GIF89a",
        b"%!PS-Adobe-3.0 EPSF-3.0",
        huge_png(6000, 6000),
        huge_png(2**31 - 1, 2**31 - 1),
        huge_png(100, 100),  # cut
        b"\0" * (MAX_BYTES + 1),
        drawn((200, 200))[:2000],
        drawn((20, 20), "BMP"),
        drawn((20, 20), "TIFF"),
    ],
)
def test_what_is_no_picture_or_too_much_is_refused(data: bytes) -> None:
    with pytest.raises(BadPicture):
        small_picture(data)


def test_broken_files_are_refused_or_taken_but_never_raise_anything_else(rng: random.Random) -> None:
    for kind in FORMATS:
        whole = drawn((64, 64), kind)
        for _ in range(60):
            broken = bytearray(whole)
            for _ in range(rng.randrange(1, 8)):
                broken[rng.randrange(len(broken))] = rng.randrange(256)
            try:
                made = small_picture(bytes(broken))
            except BadPicture:
                continue
            assert Image.open(io.BytesIO(made)).format == "WEBP"
