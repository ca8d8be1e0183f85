"""Keys and signatures: BOINC's for files and addresses, and cobblestone's for answers to account managers.

Keys and signatures in the family's form: RSA of 1024 bits over the text of an MD5.

A signature is PKCS#1 v1.5 (type 1) over the 32 ASCII characters of the lower-case hex MD5, without
DigestInfo; keys and signatures are written as hex, 64 digits on a line, with a full stop on the last.
Neither RSA-1024 nor MD5 is what one would choose today, but clients know nothing else: keep the private
code signing key off the server.

Source: BOINC's wire protocol as seen with client 7.20.5; ``lib/crypt.cpp`` (facts only).

Signatures of answers: that they come from who knows the token, to this question, now.

Key is the SHA-256 of the token, which both sides have: the one who asks has the token, the one who answers keeps its hash alone.
Signed are the time, method and address of the request, and the hashes of both bodies; so an answer fits no other question, and an
old one is told from a new one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import NoDigestInfo

from cobblestone.domain.errors import ProtocolError
from cobblestone.wire.project.account import md5_hex

#: The only size that clients can hold.
KEY_BITS = 1024

_MODULUS = KEY_BITS // 8
_PRIME = KEY_BITS // 16
_DIGITS_PER_LINE = 64
_PUBLIC_PARTS = (_MODULUS, _MODULUS)
_PRIVATE_PARTS = (_MODULUS, _MODULUS, _MODULUS, _PRIME, _PRIME, _PRIME, _PRIME, _PRIME)


class BadKey(ProtocolError):
    """A key text is not in BOINC's form, or not of 1024 bits."""


# -- text forms -----------------------------------------------------------------------------------------


def _hex_lines(data: bytes) -> str:
    return data.hex("\n", -(_DIGITS_PER_LINE // 2)) + "\n.\n"


def _numbers(text: str, sizes: tuple[int, ...], what: str) -> list[int]:
    """Return big-endian numbers of the given sizes in bytes; white space is ignored, as clients do."""
    bits, _, lines = text.strip().partition("\n")
    bits, digits = bits.strip(), "".join(lines.removesuffix(".").split())
    if not re.fullmatch(r"\d{1,5}", bits, re.ASCII) or not re.fullmatch(r"[0-9a-fA-F]*", digits):
        raise BadKey(f"this is no {what}: expected the bit length, hex lines, and a full stop")
    if int(bits) != KEY_BITS:
        raise BadKey(f"this {what} has {bits} bits: clients accept {KEY_BITS} only")
    if len(digits) != 2 * sum(sizes):
        raise BadKey(f"this {what} has {len(digits)} hex digits instead of {2 * sum(sizes)}")
    data = bytes.fromhex(digits)
    numbers: list[int] = []
    for size in sizes:
        numbers.append(int.from_bytes(data[:size]))
        data = data[size:]
    return numbers


def encode_public_key(key: rsa.RSAPublicKey) -> str:
    """Write a public key in the form of clients and BOINC's tools."""
    numbers = key.public_numbers()
    return _encode((numbers.n, numbers.e), _PUBLIC_PARTS)


def encode_private_key(key: rsa.RSAPrivateKey) -> str:
    """Write a private key in the form of BOINC's tools."""
    private = key.private_numbers()
    public = private.public_numbers
    values = (public.n, public.e, private.d, private.p, private.q, private.dmp1, private.dmq1, private.iqmp)
    return _encode(values, _PRIVATE_PARTS)


def _encode(numbers: tuple[int, ...], sizes: tuple[int, ...]) -> str:
    if numbers[0].bit_length() != KEY_BITS:
        raise BadKey(f"this key has {numbers[0].bit_length()} bits: clients accept {KEY_BITS} only")
    data = b"".join(number.to_bytes(size) for number, size in zip(numbers, sizes, strict=True))
    return f"{KEY_BITS}\n{_hex_lines(data)}"


def decode_public_key(text: str) -> rsa.RSAPublicKey:
    """Read a public key.  Raises BadKey."""
    modulus, exponent = _numbers(text, _PUBLIC_PARTS, "public key")
    try:
        return rsa.RSAPublicNumbers(exponent, modulus).public_key()
    except ValueError as error:
        raise BadKey(f"this public key cannot be used: {error}") from None


def decode_private_key(text: str) -> rsa.RSAPrivateKey:
    """Read a private key.  Raises BadKey."""
    n, e, d, p, q, dmp1, dmq1, iqmp = _numbers(text, _PRIVATE_PARTS, "private key")
    try:
        return rsa.RSAPrivateNumbers(p, q, d, dmp1, dmq1, iqmp, rsa.RSAPublicNumbers(e, n)).private_key()
    except ValueError as error:
        raise BadKey(f"this private key cannot be used: {error}") from None


def generate_key() -> rsa.RSAPrivateKey:
    """Create a key pair."""
    return rsa.generate_private_key(65537, KEY_BITS)


# -- code signing ---------------------------------------------------------------------------------------


def sign_bytes(key: rsa.RSAPrivateKey, data: bytes) -> str:
    """Sign the content of a file; return the signature's text."""
    return sign_md5(key, md5_hex(data))


def sign_md5(key: rsa.RSAPrivateKey, md5: str) -> str:
    """Sign a file by its MD5 in lower-case hex; return the signature's text."""
    return _hex_lines(key.sign(md5.encode(), padding.PKCS1v15(), NoDigestInfo()))


def verify_bytes(key: rsa.RSAPublicKey, data: bytes, signature: str) -> bool:
    """Return whether a signature's text is of this data and key."""
    return verify_md5(key, md5_hex(data), signature)


def verify_md5(key: rsa.RSAPublicKey, md5: str, signature: str) -> bool:
    """Return whether a signature's text is of the data with this MD5, and of this key."""
    raw = _signature_bytes(signature)
    if raw is None:
        return False
    try:
        signed = key.recover_data_from_signature(raw, padding.PKCS1v15(), None)
    except InvalidSignature:
        return False
    return signed == md5.encode()


def sign_key_handover(old_key: rsa.RSAPrivateKey, new_key_text: str) -> str:
    """Return the signature with which clients that have the old code-signing key accept the new one.

    It covers the new key's text without white space at its ends.
    """
    return sign_bytes(old_key, new_key_text.strip().encode())


def same_key(one: str, other: str) -> bool:
    """Return whether two key texts are equal except for white space, which clients change."""
    return one.split() == other.split()


def _signature_bytes(text: str) -> bytes | None:
    digits = "".join(text.split()).removesuffix(".")
    if len(digits) != 2 * _MODULUS or not re.fullmatch("[0-9a-fA-F]+", digits):
        return None
    return bytes.fromhex(digits)


# -- uploads --------------------------------------------------------------------------------------------


def upload_signature(secret: bytes, name: str, max_nbytes: int) -> str:
    """Return the ``<xml_signature>`` of an output file, by which the upload handler recognises what it allowed.

    The family signs with an RSA key, but no one except the server that wrote the signature ever checks it:
    clients copy the element as it is.  So a keyed hash (BLAKE2b, a MAC by design) with a secret of the server does the
    same, cannot be forged without that secret, and takes microseconds instead of a millisecond.  The text
    has the family's form, 128 bytes: two hashes, each over a different counter.
    """
    return _hex_lines(_upload_mac(secret, name, max_nbytes))


def verify_upload_signature(secret: bytes, name: str, max_nbytes: int, signature: str) -> bool:
    """Return whether we issued this signature for that file and size; white space does not matter."""
    raw = _signature_bytes(signature)
    return raw is not None and hmac.compare_digest(raw, _upload_mac(secret, name, max_nbytes))


def _upload_mac(secret: bytes, name: str, max_nbytes: int) -> bytes:
    text = f"<name>{name}</name><max_nbytes>{max_nbytes:d}</max_nbytes>".encode()
    digests: list[bytes] = []
    for begun in _begun_macs(secret):
        mac = begun.copy()
        mac.update(text)
        digests.append(mac.digest())
    return b"".join(digests)


@lru_cache(maxsize=8)  # a process has one secret; to begin takes half of the time of a hash
def _begun_macs(secret: bytes) -> tuple[hashlib.blake2b, hashlib.blake2b]:
    """Return hashes that start with their counters."""
    key = secret if len(secret) <= hashlib.blake2b.MAX_KEY_SIZE else hashlib.sha512(secret).digest()
    return hashlib.blake2b(b"\0", key=key), hashlib.blake2b(b"\1", key=key)


HEADER = "Cobblestone-Signature"
#: Clocks may differ by so much.
MAX_AGE_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedExchange:
    """A question and its answer."""

    method: str
    target: str  #: path below ``/api/v1`` and query, as sent
    question: bytes
    answer: bytes


def sign_reply(token: str, exchange: SignedExchange, *, now: float) -> str:
    """Return the header's text: Unix seconds, a full stop, and 64 hexadecimal digits."""
    time = str(int(now))
    parts = (
        time,
        exchange.method,
        exchange.target,
        hashlib.sha256(exchange.question).hexdigest(),
        hashlib.sha256(exchange.answer).hexdigest(),
    )
    key = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
    return f"{time}.{hmac.new(key, chr(10).join(parts).encode(), hashlib.sha256).hexdigest()}"


def reply_is_signed(token: str, exchange: SignedExchange, signature: str, *, now: float) -> bool:
    """Return whether an answer was signed for this question, and recently."""
    time, _, _ = signature.partition(".")
    if not (time.isascii() and time.isdecimal() and len(time) < 17) or abs(now - int(time)) > MAX_AGE_SECONDS:
        return False
    return hmac.compare_digest(sign_reply(token, exchange, now=int(time)), signature)
