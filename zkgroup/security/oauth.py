"""OAUTHBEARER (RFC 7628): a client shows a token (JWT), and a file (JWKS) has the public keys of its issuer.

The package joserfc checks signatures and claims, by the rules of Kafka 3.9.1 (KIP-768, and
ValidatorAccessTokenValidator.java in org/apache/kafka/common/security/oauthbearer/internals/secured). Only
signatures by RSA and EC keys count, so a token is neither unsecured nor signed with a public key as password.
It also refuses a token that is issued later than now, and any token after one that was refused.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit

from zkgroup.errors import ConfigError
from zkgroup.security.sasl import LoginFailedError, ServerToken
from zkgroup.security.secret_files import (
    Followed,
    check_secret_file,
    check_trusted_file,
    refuse_irregular,
)

KEYS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
ISSUER: Final = "sasl.oauthbearer.expected.issuer"
AUDIENCE: Final = "sasl.oauthbearer.expected.audience"
USER_CLAIM: Final = "sasl.oauthbearer.sub.claim.name"
CLOCK_SKEW: Final = "sasl.oauthbearer.clock.skew.seconds"
VALIDATOR: Final = "sasl.server.callback.handler.class"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a setting
TOKEN_READER: Final = "sasl.login.callback.handler.class"  # noqa: S105 - the name of a setting
NAMES: Final = (KEYS_URL, ISSUER, AUDIENCE, USER_CLAIM, CLOCK_SKEW, VALIDATOR, TOKEN_URL, TOKEN_READER)
"""Settings of brokers; the last two are those of clients too."""

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
REFUSED: Final = '{"status":"invalid_token"}'
_LIFETIME_MAX_S: Final = 2**40

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
_HANDLERS: Final = {VALIDATOR: "Validator", TOKEN_READER: "Login"}
_TOKEN: Final = re.compile(r"[-\w.~+/]+=*", re.ASCII)
_HEADER: Final = re.compile(rb"n,(?:a=([^,]*))?,")
_AUTH: Final = re.compile(rb"(?i:bearer) +(%b)" % _TOKEN.pattern.encode())


class TokenRefusedError(Exception):
    """A token is not taken; the text is the reason, and says nothing of what is in the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """Which tokens a listener takes."""

    keys: Path
    """A file with the public keys (RFC 7517, 5: a JSON object with `keys`)."""
    issuer: str | None = None
    """Expected in `iss`; None for any, also none."""
    audiences: tuple[str, ...] = ()
    """One of them is expected in `aud`; empty for tokens without an audience."""
    user_claim: str = "sub"
    """The claim with the name of the user."""
    clock_skew_s: int = 30
    """So far may the clock of the issuer differ."""

    @classmethod
    def of(cls, found: Callable[[str], tuple[str, str]]) -> Self:
        """The settings by their names in Kafka. Raises ConfigError.

        `found`: the name under which a setting is given, and its value; an empty text without one.
        """
        check_class(VALIDATOR, *found(VALIDATOR))
        setting, skew = found(CLOCK_SKEW)
        if skew and not re.fullmatch(r"[0-9]{1,6}", skew):
            raise ConfigError(f"setting {setting}: expected seconds, found {skew!r}")
        return cls(
            keys=file_of(*found(KEYS_URL)),
            issuer=found(ISSUER)[1] or None,
            audiences=tuple(filter(None, map(str.strip, found(AUDIENCE)[1].split(",")))),
            user_claim=found(USER_CLAIM)[1] or "sub",
            clock_skew_s=int(skew or 30),
        )


def file_of(setting: str, url: str) -> Path:
    """The path in a URL of a file. Raises ConfigError for another one: nothing is fetched."""
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise ConfigError(f"setting {setting}: expected file:///PATH, found {url or 'none'}")
    return Path(unquote(parts.path))


def check_class(name: str, setting: str, value: str) -> None:
    """Raises ConfigError for another class of Java than Kafka's own for tokens of a file."""
    known = [f"{_PACKAGE}{part}OAuthBearer{_HANDLERS[name]}CallbackHandler" for part in ("secured.", "")]
    if value and value not in known:
        raise ConfigError(f"setting {setting}: expected one of {', '.join(known)}, found {value}")


class TokenChecker:
    """Checks tokens by the keys of a file, which is read again when it changes. Any thread may call it."""

    def __init__(self, settings: TokenSettings, on_fault: Callable[[str], object]) -> None:
        """Reads the file. Raises ConfigError, also without joserfc. `on_fault`: see `Followed`."""
        self._settings = settings
        self._jose = import_joserfc()
        self._keys = Followed(settings.keys, make=self._read, on_fault=on_fault)

    def checked(self, token: str, now_s: float) -> tuple[str, int]:
        """The user of a token, and for how many milliseconds it is valid. Raises TokenRefusedError.

        `now_s`: seconds since 1970.
        """
        errors = self._jose["errors"]
        registry = self._jose["jws"].JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
        try:
            claims = self._jose["jwt"].decode(token, self._keys.current(), registry=registry).claims
            user = self._user(claims, now_s)
        except errors.ExpiredTokenError:
            raise TokenRefusedError("it has expired") from None
        except errors.ClaimError as error:
            raise TokenRefusedError(f"its claim {error.claim} is not as expected") from None
        except (errors.JoseError, ValueError, TypeError, AttributeError):
            raise TokenRefusedError("it is not signed by one of the keys") from None
        left_s = min(claims["exp"], now_s + _LIFETIME_MAX_S) - now_s
        return user, max(1, int(left_s * 1000))

    def _user(self, claims: Mapping[str, Any], now_s: float) -> str:
        """Raises ClaimError, and UnicodeEncodeError for a name that no request could have."""
        settings, errors = self._settings, self._jose["errors"]
        expected: dict[str, Any] = {name: {"essential": True} for name in ("exp", "iat", settings.user_claim)}
        if settings.issuer is not None:
            expected["iss"] = {"essential": True, "value": settings.issuer}
        if settings.audiences:
            expected["aud"] = {"essential": True, "values": list(settings.audiences)}
        elif "aud" in claims:  # it is for others (RFC 7519, 4.1.3)
            raise errors.InvalidClaimError("aud")
        registry = self._jose["jwt"].JWTClaimsRegistry
        registry(now=int(now_s), leeway=settings.clock_skew_s, **expected).validate(claims)
        user = claims[settings.user_claim]
        if not isinstance(user, str) or not user.strip():
            raise errors.InvalidClaimError(settings.user_claim)
        user.encode()
        return user

    def _read(self) -> Any:
        """The keys of the file. Raises ConfigError."""
        path, jwk = self._settings.keys, self._jose["jwk"]
        refuse_irregular(path)
        check_trusted_file(path)
        try:
            found = json.loads(path.read_bytes())["keys"]
            return jwk.KeySet.import_key_set({"keys": [key for key in found if key["kty"] in ("RSA", "EC")]})
        except OSError as error:
            raise ConfigError(f"{path}: the file of keys cannot be read: {error.strerror}") from None
        except (self._jose["errors"].JoseError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                f"{path}: expected public keys in JSON (JWKS, RFC 7517), at least one of RSA or EC ({error})"
            ) from None


class BearerExchange:
    """A login by OAUTHBEARER: one token of the client; one more where it is refused (RFC 7628, 3.2.3)."""

    def __init__(self, tokens: TokenChecker) -> None:
        self._tokens = tokens
        self._refusal: str | None = None

    def take(self, token: bytes) -> ServerToken:
        """As `Exchange.take`."""
        if self._refusal is not None:
            raise LoginFailedError(self._refusal)
        first, *pairs = token.split(b"\1")
        values = dict(pair.partition(b"=")[::2] for pair in pairs)
        header, auth = _HEADER.fullmatch(first), _AUTH.fullmatch(values.get(b"auth", b""))
        if header is None or auth is None or pairs[-2:] != [b"", b""]:
            raise LoginFailedError("Invalid OAUTHBEARER client first message")
        try:
            user, lifetime_ms = self._tokens.checked(auth[1].decode(), time.time())
        except TokenRefusedError as error:
            self._refusal = f"{REFUSED}: {error}"
            return ServerToken(REFUSED.encode())
        if (header[1] or b"") not in (b"", user.encode()):
            raise LoginFailedError(
                "Authentication failed: Client requested an authorization id that is different from the "
                "token's principal name"
            )
        return ServerToken(b"", user, lifetime_ms)


def read_token(path: Path) -> str:
    """The token in a file. Raises ConfigError, also for a file that others may write."""
    check_secret_file(path)
    try:
        token = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "expected ASCII"
        raise ConfigError(f"{path}: the token cannot be read: {why}") from None
    if not _TOKEN.fullmatch(token):
        raise ConfigError(f"{path}: expected a token alone, in one line")
    return token


def first_message(token: str) -> bytes:
    """What a client sends to log in."""
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode("ascii")


def import_joserfc() -> Mapping[str, Any]:
    """Modules of the package joserfc by their names. Raises ConfigError where it is not installed."""
    try:
        return {name: import_module(f"joserfc.{name}") for name in ("errors", "jwk", "jws", "jwt")}
    except ImportError as error:
        raise ConfigError("OAUTHBEARER needs the package joserfc: pip install 'zkgroup[oauth]'") from error
