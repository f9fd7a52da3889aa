"""A Kafka that asks who one is: a second listener with TLS and passwords, signed by an authority of its own.

Its first listener stays as it is, on loopback, for whoever looks after the broker.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pipeline.free_ports import free_ports
from pipeline.kafka.acls import Operation, Permission, Resource
from pipeline.kafka.local_broker import LocalBroker
from pipeline.settings import load_settings

_OPERATIONS = {Operation.READ: AclOperation.READ, Operation.WRITE: AclOperation.WRITE}
_RESOURCES = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}


@dataclass(frozen=True, slots=True)
class Secured:
    """A running one.

    Attributes:
        open: the listener without a password, whose clients may do everything.
        closed: the other one.
        authority: PEM file of who has signed its certificate.
    """

    open: str
    closed: str
    authority: Path

    def allow(self, permissions: Iterable[Permission]) -> None:
        """To the user of each permission's role."""
        bindings = [
            AclBinding(
                _RESOURCES[each.resource],
                each.name,
                ResourcePatternType.PREFIXED if each.prefixed else ResourcePatternType.LITERAL,
                f"User:{each.role}",
                "*",
                _OPERATIONS[each.operation],
                AclPermissionType.ALLOW,
            )
            for each in permissions
        ]
        admin: Any = AdminClient({"bootstrap.servers": self.open})
        for made in admin.create_acls(bindings, request_timeout=30).values():
            made.result()


def password_of(user: str) -> str:
    return f"canary-{user}-secret"


@contextmanager
def secured_broker(folder: Path, users: Iterable[str]) -> Generator[Secured]:
    """Start it, with these users and no permissions."""
    authority, pem = _certificates(folder)
    (port,) = free_ports(1)
    logins = " ".join(f'user_{user}="{password_of(user)}"' for user in users)
    properties = {
        "listeners+": f"SASL_SSL://127.0.0.1:{port}",
        "advertised.listeners+": f"SASL_SSL://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {logins};"
        ),
        "listener.name.sasl_ssl.ssl.keystore.type": "PEM",
        "listener.name.sasl_ssl.ssl.keystore.location": str(pem),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with LocalBroker(load_settings().home, properties=properties) as broker:
        yield Secured(broker.bootstrap, f"127.0.0.1:{port}", authority)


def _certificates(folder: Path) -> tuple[Path, Path]:
    """Of the authority, and the broker's with its key."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("test authority", "broker")
    ]
    now = datetime.datetime.now(datetime.UTC)

    def signed(number: int, extension: Any, *, critical: bool) -> x509.Certificate:
        builder = x509.CertificateBuilder().subject_name(names[number]).issuer_name(names[0])
        builder = builder.public_key(keys[number].public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(days=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=1))
        return builder.add_extension(extension, critical=critical).sign(keys[0], hashes.SHA256())

    root = signed(0, x509.BasicConstraints(ca=True, path_length=0), critical=True)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    leaf = signed(1, x509.SubjectAlternativeName([address]), critical=False)
    encoding = serialization.Encoding.PEM
    authority, pem = folder / "authority.pem", folder / "broker.pem"
    authority.write_bytes(root.public_bytes(encoding))
    key = keys[1].private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    pem.write_bytes(key + leaf.public_bytes(encoding) + root.public_bytes(encoding))
    return authority, pem
