"""Names and hashes that the family derives from accounts, computers and files.  MD5 throughout, by its protocol.

None of these is a secret-keeping function: store passwords under a slow salted hash *of* the `passwd_hash`.
"""

from __future__ import annotations

import hashlib


def md5_hex(text: str | bytes) -> str:
    """MD5 in lower-case hex; texts as UTF-8."""
    data = text.encode() if isinstance(text, str) else text
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def fanout_directory(file_name: str, fanout: int) -> str:
    """Directory of a file below the download or upload root; empty when ``fanout`` is 0 (a flat root).

    The digits 2 to 8 of the name's MD5 as a number, modulo ``fanout``, in hex (BOINC's ``filename_hash``).
    """
    if fanout <= 0:
        return ""
    return f"{int(md5_hex(file_name)[1:8], 16) % fanout:x}"


def passwd_hash(password: str, email_addr: str) -> str:
    """Return what clients send instead of a password: MD5 of password and lower-case e-mail address."""
    return md5_hex(password + email_addr.lower())


def weak_authenticator(user_id: int, authenticator: str, secret: str) -> str:
    """Return a key that lets a computer work for an account, but not change it.

    BOINC takes the stored password hash as ``secret``.  A random secret for each account is better: it does not
    change when the hash is stored in another way.
    """
    return f"{user_id}_{md5_hex(authenticator + secret)}"


def email_hash(email_addr: str) -> str:
    """Key by which clients match accounts of one person on several projects."""
    return md5_hex(email_addr.lower())


def external_cpid(cross_project_id: str, email_addr: str) -> str:
    """Return the cross-project id that is shown and exported: MD5 of the internal one and the e-mail address."""
    return md5_hex(cross_project_id + email_addr)
