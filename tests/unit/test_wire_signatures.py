"""Keys and signatures, against values that BOINC's tools and client agree with."""

from __future__ import annotations

import subprocess

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.helpers.wire_captures import recorded
from tests.helpers.wire_elements import read_elements

from cobblestone.wire.project.signatures import (
    BadKey,
    decode_private_key,
    decode_public_key,
    encode_private_key,
    encode_public_key,
    generate_key,
    same_key,
    sign_bytes,
    sign_key_handover,
    sign_md5,
    upload_signature,
    verify_bytes,
    verify_md5,
    verify_upload_signature,
)

#: Of ``hello world`` and a line end, made by the server of the captures and accepted by client 7.20.5.
KNOWN_SIGNATURE = """
    5b1964d9b975f39ccd5f89dbb1c3db2ab014d59721e06a1deb389ac4a4009ea9
    aaaccdde77966e675c61d907f5f8f1bcf47d9c25505255dd1d6d2c497053c1c2
    e516bd7b0dee18004c1a31da3a3347520043cf263741c9ba398590ed2338215d
    27c7fb36595916e4437eedab0b2513aa68f4a2d5497c288c6ee16e39c2d15315
    .
"""
FIRST_REPLY = read_elements(recorded("04", "reply"))
KNOWN_KEY = FIRST_REPLY.get("code_sign_key")
SECRET = b"secret of the upload handler"


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return generate_key()


def test_the_known_signature_is_accepted():
    assert verify_bytes(decode_public_key(KNOWN_KEY), b"hello world\n", KNOWN_SIGNATURE)
    assert verify_md5(decode_public_key(KNOWN_KEY), "6f5902ac237024bdd0c176cb93063dc4", KNOWN_SIGNATURE)


@pytest.mark.parametrize(
    ("data", "signature"),
    [
        (b"hello world", KNOWN_SIGNATURE),
        (b"hello world\n", KNOWN_SIGNATURE.replace("5b", "5c", 1)),
        (b"hello world\n", KNOWN_SIGNATURE.replace(".", "00.")),
        (b"hello world\n", ""),
        (b"hello world\n", "f" * 256 + "."),
        (b"hello world\n", "0" * 256),
        (b"hello world\n", "zz" * 128 + "."),
    ],
)
def test_any_other_signature_is_not(data: bytes, signature: str):
    assert not verify_bytes(decode_public_key(KNOWN_KEY), data, signature)


def test_the_recorded_application_file_was_signed_by_the_recorded_key():
    (file, *_) = [f for f in FIRST_REPLY.all("file_info") if f.has("file_signature")]
    assert verify_md5(decode_public_key(KNOWN_KEY), file.get("md5_cksum"), file.get("file_signature"))


def test_the_recorded_handover_was_signed_by_the_recorded_key():
    reply = read_elements(recorded("15", "reply"))
    new_key = reply.get("code_sign_key")
    assert not same_key(new_key, KNOWN_KEY)
    signature = reply.get("code_sign_key_signature")
    assert verify_bytes(decode_public_key(KNOWN_KEY), new_key.strip().encode(), signature)


def test_a_public_key_is_written_as_it_was_recorded():
    assert encode_public_key(decode_public_key(KNOWN_KEY)) == KNOWN_KEY.strip() + "\n"


def test_our_signatures_are_accepted_and_have_the_familys_form(key: rsa.RSAPrivateKey):
    signature = sign_bytes(key, b"data")
    assert [len(line) for line in signature.splitlines()] == [64, 64, 64, 64, 1]
    assert signature.endswith("\n.\n")
    assert verify_bytes(key.public_key(), b"data", signature)
    assert not verify_bytes(key.public_key(), b"other", signature)
    assert not verify_bytes(generate_key().public_key(), b"data", signature)
    assert sign_md5(key, "8d777f385d3dfec8815d20f7496026dc") == signature


def test_a_signature_is_plain_padding_around_the_text_of_the_md5(key: rsa.RSAPrivateKey):
    """Computed by hand: type 1 padding, no DigestInfo, then the private operation."""
    text = b"8d777f385d3dfec8815d20f7496026dc"
    padded = b"\x00\x01" + b"\xff" * (128 - 3 - len(text)) + b"\x00" + text
    numbers = key.private_numbers()
    raw = pow(int.from_bytes(padded), numbers.d, numbers.public_numbers.n).to_bytes(128)
    assert bytes.fromhex("".join(sign_bytes(key, b"data").split())[:-1]) == raw


def test_keys_survive_writing_and_reading(key: rsa.RSAPrivateKey):
    text = encode_private_key(key)
    # modulus, two exponents, two primes, two prime exponents, coefficient
    assert sum(len(line) for line in text.splitlines()[1:-1]) == 2 * (3 * 128 + 5 * 64)
    assert decode_private_key(text).private_numbers() == key.private_numbers()
    public = decode_public_key(encode_public_key(key.public_key()))
    assert public.public_numbers() == key.public_key().public_numbers()


def test_white_space_in_a_key_does_not_matter(key: rsa.RSAPrivateKey):
    text = encode_public_key(key.public_key())
    assert decode_public_key(f"\n  {text.replace(chr(10), chr(10) + '  ')}\n").public_numbers() == (
        key.public_key().public_numbers()
    )
    assert same_key(text, f" {text.strip()} ")
    assert not same_key(text, KNOWN_KEY)


def test_the_handover_covers_the_key_without_white_space_at_its_ends(key: rsa.RSAPrivateKey):
    signature = sign_key_handover(key, f"\n{KNOWN_KEY}\n\n")
    assert verify_bytes(key.public_key(), KNOWN_KEY.strip().encode(), signature)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "this is no public key"),
        ("hello", "this is no public key"),
        (KNOWN_KEY.replace("1024", "2048"), "has 2048 bits"),
        (KNOWN_KEY.strip()[:-20], "hex digits instead of 512"),
        (KNOWN_KEY.replace("b", "x"), "this is no public key"),
        ("1024\n" + "0" * 512 + "\n.", "cannot be used"),
        ("1024\n" + "1" * 512 + "\n.", "cannot be used"),
    ],
)
def test_a_bad_public_key_is_refused_with_its_reason(text: str, problem: str):
    with pytest.raises(BadKey, match=problem):
        decode_public_key(text)


def test_a_bad_private_key_is_refused(key: rsa.RSAPrivateKey):
    with pytest.raises(BadKey, match="this private key cannot be used"):
        decode_private_key("1024\n" + "1" * 2 * (3 * 128 + 5 * 64) + "\n.")
    with pytest.raises(BadKey, match="hex digits instead of"):
        decode_private_key(encode_public_key(key.public_key()))


def test_a_key_that_clients_cannot_hold_is_not_written():
    with pytest.raises(BadKey, match="2048 bits"):
        encode_public_key(rsa.generate_private_key(65537, 2048).public_key())


def test_openssl_agrees(key: rsa.RSAPrivateKey, tmp_path):
    """An implementation of others recovers the text of the MD5 from our signature."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    pem, raw = tmp_path / "key.pem", tmp_path / "signature"
    pem.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    raw.write_bytes(bytes.fromhex("".join(sign_bytes(key, b"data").split())[:-1]))
    command = ["openssl", "pkeyutl", "-verifyrecover", "-pubin", "-inkey", pem, "-in", raw]
    done = subprocess.run(command, check=True, capture_output=True)
    assert done.stdout == b"8d777f385d3dfec8815d20f7496026dc"


# -- uploads ----------------------------------------------------------------------------------------------


def test_an_upload_signature_has_the_familys_form():
    signature = upload_signature(SECRET, "wu_0_0", 1000)
    assert [len(line) for line in signature.splitlines()] == [64, 64, 64, 64, 1]
    assert len(set(signature.splitlines())) == 5


def test_an_upload_signature_holds_for_one_file_and_size_only():
    signature = upload_signature(SECRET, "wu_0_0", 1000)
    assert verify_upload_signature(SECRET, "wu_0_0", 1000, signature)
    assert not verify_upload_signature(SECRET, "wu_0_0", 1001, signature)
    assert not verify_upload_signature(SECRET, "wu_0_1", 1000, signature)
    assert not verify_upload_signature(b"other secret", "wu_0_0", 1000, signature)


def test_an_upload_signature_survives_what_clients_do_to_white_space():
    signature = upload_signature(SECRET, "wu_0_0", 1000)
    for changed in (
        signature.strip(),
        f"\n{signature}    ",
        signature.replace("\n", "\r\n"),
        signature.upper(),
    ):
        assert verify_upload_signature(SECRET, "wu_0_0", 1000, changed)


@pytest.mark.parametrize("signature", ["", ".", "00", "x" * 256, "0" * 256 + ".", "é" * 256])
def test_what_is_no_upload_signature_is_refused(signature: str):
    assert not verify_upload_signature(SECRET, "wu_0_0", 1000, signature)


def test_part_of_an_upload_signature_is_not_enough():
    lines = upload_signature(SECRET, "wu_0_0", 1000).split()
    assert not verify_upload_signature(SECRET, "wu_0_0", 1000, "\n".join([*lines[:3], "0" * 64, "."]))


def test_the_known_upload_signature_has_not_changed():
    """Jobs that are out hold signatures of the release that sent them."""
    assert upload_signature(b"s", "a", 5).splitlines()[0] == (
        "140f520d10457ea8accaeed9dc99f091c56e88950a39cf7917a44804a5408053"
    )
