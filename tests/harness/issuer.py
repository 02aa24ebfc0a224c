"""An OpenID issuer of our own on loopback: it signs tokens, lists its keys, rotates them, and can be made to misbehave.

async with Issuer() as issuer:
    token = issuer.token(sub="ann", scope="turnstream:read")
"""

import asyncio
import json
import time
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "turnstream-tests"

PrivateKey = RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey


class SigningKey:
    """A private key with its id, and what is listed of it."""

    def __init__(self, algorithm: str) -> None:
        self.kid = uuid4().hex
        self.algorithm = algorithm
        self.key: PrivateKey
        if algorithm.startswith("RS"):
            self.key = generate_rsa(public_exponent=65537, key_size=2048)
            listed: dict[str, Any] = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        elif algorithm == "ES256":
            self.key = generate_private_key(SECP256R1())
            listed = json.loads(ECAlgorithm.to_jwk(self.key.public_key()))
        else:
            self.key = Ed25519PrivateKey.generate()
            listed = json.loads(OKPAlgorithm.to_jwk(self.key.public_key()))
        self.listed = {**listed, "kid": self.kid, "alg": algorithm, "use": "sig"}


class Issuer:
    """`answers` replaces what a path answers: (status, headers, body). `asked` are the paths in order."""

    def __init__(self, *keys: SigningKey) -> None:
        self.keys = list(keys or [SigningKey("EdDSA")])
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[str] = []
        self.url = ""
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    def token(self, key: SigningKey | None = None, headers: dict[str, Any] | None = None, **claims: object) -> str:
        """A token as the issuer signs it, with these claims changed; None leaves one out."""
        now, key = int(time.time()), key or self.keys[0]
        whole = {"iss": self.url, "aud": AUDIENCE, "sub": "ann", "iat": now, "exp": now + 300} | claims
        kept = {name: value for name, value in whole.items() if value is not None}
        return jwt.encode(kept, key.key, algorithm=key.algorithm, headers={"kid": key.kid} | (headers or {}))

    def rotate(self) -> None:
        """A new key takes the place of all others."""
        self.keys = [SigningKey("EdDSA")]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ")[1].decode()
        self.asked.append(path)
        status, headers, body = self.answers.get(path, self._usual(path))
        lines = [f"HTTP/1.1 {status} -", f"Content-Length: {len(body)}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        try:
            await writer.drain()
        except ConnectionError:
            return  # the client had read enough
        finally:
            writer.close()

    def _usual(self, path: str) -> tuple[int, dict[str, str], bytes]:
        told: dict[str, object] = {
            "/.well-known/openid-configuration": {"issuer": self.url, "jwks_uri": f"{self.url}/keys"},
            "/keys": {"keys": [key.listed for key in self.keys]},
        }
        if path not in told:
            return 404, {}, b""
        return 200, {"Content-Type": "application/json"}, json.dumps(told[path]).encode()
