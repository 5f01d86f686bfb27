"""Tells what kind of address a launcher handed out: loopback, no address at all, or a name that resolvers misread."""

from __future__ import annotations

import re

from hangscope.expressions import expression

_LOOPBACK = expression(
    r"^\[?(?:localhost(?:\.localdomain)?|127(?:\.\d{1,3}){3}|::1|0\.0\.0\.0|::ffff:127(?:\.\d{1,3}){3})\]?$",
    re.IGNORECASE,
)
_NETMASK = expression(r"^255\.(?:255|0)\.")
_PORT = expression(r"^(?P<host>\[[^\]]*\]|[^:]*):\d+(?:\$\d+)?$")


def host_part(address: str) -> str:
    """The address without port and brackets."""
    found = _PORT.match(address)
    return (found["host"] if found else address).strip("[]")


def is_loopback(address: str) -> bool:
    """An address that every machine has for itself."""
    return bool(_LOOPBACK.match(host_part(address)))


def is_malformed(address: str) -> bool:
    """Nothing that names a machine: empty, a path, a netmask, or text that a shell printed.

    Launchers that ask a node for its address over ssh take the first word that comes back (DeepSpeed 2612).
    """
    text = address.strip().strip("[]")
    return not text or "/" in text or bool(_NETMASK.match(text)) or not re.search(r"\w", text)


def is_numeric_name(address: str) -> bool:
    """A host name of digits only: resolvers take it for an IPv4 address in one number (7012345 is 0.106.255.249)."""
    return address.isdecimal()
