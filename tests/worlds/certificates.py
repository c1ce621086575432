"""Certificates of an authority of the test, in PEM files as Kafka's settings name them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

HERE = ("127.0.0.1", "localhost")


class Authority:
    """Issues certificates into files of a folder; `trust_store` is the file that trusts them."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._ca = trustme.CA(organization_name=name)
        self.trust_store = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(self.trust_store)

    def key_store(
        self,
        name: str,
        *hosts: str,
        password: str | None = None,
        not_after: datetime | None = None,
        common_name: str | None = None,
    ) -> Path:
        """One file with key (PKCS#8, which Java needs), certificate and chain, for these hosts.

        `password` encrypts the key.
        """
        issued = self._ca.issue_cert(*(hosts or HERE), not_after=not_after, common_name=common_name)
        encryption = BestAvailableEncryption(password.encode()) if password is not None else NoEncryption()
        key = load_pem_private_key(issued.private_key_pem.bytes(), None).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, encryption
        )
        path = self._folder / f"{name}.pem"
        path.write_bytes(key + b"".join(part.bytes() for part in issued.cert_chain_pems))
        return path
