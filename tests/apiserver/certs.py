"""Certificate authorities and certificates for tests, created with python3-cryptography in the test's directory."""

import datetime
import ipaddress
import os

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NAMES = ("127.0.0.1", "::1", "localhost", "kubernetes.default.svc")


def _name(common, organization=None):
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organization:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _alternative(name):
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(path, data, mode=0o600):
    with open(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, mode), "wb") as f:
        f.write(data)
    return path


def _pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


class Authority:
    """A certificate authority. A client must trust `ca_file`."""

    def __init__(self, directory, name="test-ca"):
        self.directory, self.name = str(directory), name
        os.makedirs(self.directory, exist_ok=True)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._sign(_name(name), self.key.public_key(), [(x509.BasicConstraints(True, None), True)])
        pem = self.certificate.public_bytes(serialization.Encoding.PEM)
        self.ca_file = _write(os.path.join(self.directory, f"{name}.crt"), pem, 0o644)
        self.count = 0

    def _sign(self, subject, public_key, extensions, days=(-1, 30)):
        now = datetime.datetime.utcnow()
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(_name(self.name))
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + datetime.timedelta(days=days[0]))
            .not_valid_after(now + datetime.timedelta(days=days[1]))
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self.key, hashes.SHA256())

    def server(self, names=NAMES, days=(-1, 30)):
        """Creates a certificate for a server with these names. Returns (certificate file, key file). `days` is the validity from now on."""
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        sans = x509.SubjectAlternativeName([_alternative(n) for n in names])
        return self._issue("server", _name("kube-apiserver"), [(usage, False), (sans, False)], days)

    def client(self, user, group=None):
        """Creates a certificate for a client. Returns (certificate file, key file). The API server uses the common name as the user
        name."""
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return self._issue("client", _name(user, group), [(usage, False)])

    def _issue(self, what, subject, extensions, days=(-1, 30)):
        self.count += 1
        key = ec.generate_private_key(ec.SECP256R1())
        cert = self._sign(subject, key.public_key(), extensions, days)
        base = os.path.join(self.directory, f"{self.name}-{what}-{self.count}")
        pem = cert.public_bytes(serialization.Encoding.PEM)
        return _write(base + ".crt", pem, 0o644), _write(base + ".key", _pem(key))
