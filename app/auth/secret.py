"""Secrets that this server makes: tokens for programs, and the values of the page's cookies. Only hashes are kept.

A secret has 256 random bits, so its SHA-256 can't be searched for and needs no slow hash: decision 0019. It is looked
up by that hash, so no comparison's time says anything about the secret.
"""

import hashlib
import re
import secrets
from typing import Literal

Kind = Literal["ts", "tsc"]
"""What a secret begins with, so that people and scanners know one: ts a token, tsc a cookie's value."""

_FORM = {kind: re.compile(rf"{kind}_[A-Za-z0-9_-]{{43}}\Z") for kind in ("ts", "tsc")}


def fresh(kind: Kind) -> str:
    """A new secret: the kind, an underscore, and 32 random bytes in base64url."""
    return f"{kind}_{secrets.token_urlsafe(32)}"


def is_secret(kind: Kind, text: str) -> bool:
    """Whether a text has the form of such a secret; anything else isn't worth looking up."""
    return _FORM[kind].match(text) is not None


def digest(secret: str) -> bytes:
    """What is kept of it."""
    return hashlib.sha256(secret.encode()).digest()
