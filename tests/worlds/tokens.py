"""An issuer of tokens (JWT), with a file of its public keys, for logins by OAUTHBEARER."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
JAAS = f"{MODULE} required;"
HANDLERS = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearer"


class Issuer:
    """Signs tokens by the newest of its keys; `keys` is the file of those that count."""

    def __init__(self, folder: Path) -> None:
        self._jwk, self._jwt = map(pytest.importorskip, ("joserfc.jwk", "joserfc.jwt"))
        self._folder = folder
        self._numbers = iter(range(1, 100))
        self.keys = folder / "keys.json"
        self.rotate()

    def rotate(self) -> None:
        """The next key replaces the former one."""
        self.key = self._jwk.ECKey.generate_key("P-256", {"kid": f"key-{next(self._numbers)}", "use": "sig"})
        self.publish(self.key.as_dict(private=False))

    def publish(self, *keys: Any) -> None:
        """Only these count."""
        new = self.keys.with_suffix(".new")
        new.write_text(json.dumps({"keys": keys}), "utf-8")
        new.replace(self.keys)

    def token(
        self,
        user: str = "alice",
        *,
        key: Any = None,
        algorithm: str = "ES256",
        **claims: Any,
    ) -> str:
        """A token; a claim of None is left out."""
        now_s = time.time()
        all_claims = {"sub": user, "iat": int(now_s), "exp": now_s + 3600, **claims}
        key = key or self.key
        header = {"alg": algorithm, "kid": key.kid}
        given = {name: value for name, value in all_claims.items() if value is not None}
        return self._jwt.encode(header, given, key, algorithms=[algorithm])

    def token_file(self, user: str = "alice") -> Path:
        """A file with a token of the user."""
        path = self._folder / f"{user}.token"
        path.touch(mode=0o600)
        path.write_text(f"{self.token(user)}\n", "ascii")
        return path

    def of_broker(self, listener: str) -> dict[str, str]:
        """The settings of a listener at which tokens log in, as Kafka 3.9.1 takes them."""
        own = f"listener.name.{listener.lower()}.oauthbearer."
        return {
            f"{own}sasl.jaas.config": JAAS,
            f"{own}sasl.server.callback.handler.class": f"{HANDLERS}ValidatorCallbackHandler",
            f"{own}sasl.oauthbearer.jwks.endpoint.url": self.keys.as_uri(),
        }


def of_client(token_file: Path, protocol: str = "SASL_PLAINTEXT") -> dict[str, str]:
    """The settings of a client with a token, as Kafka 3.9.1 takes them."""
    return {
        "security.protocol": protocol,
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": JAAS,
        "sasl.login.callback.handler.class": f"{HANDLERS}LoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": token_file.as_uri(),
    }
