"""Network policies in task files: the modes, and what may stand on an allowlist.

Entries are host names, a leading `*.` wildcard, IP addresses or CIDR ranges; they are normalised (lower case, no final
dot, compressed IPv6), so that equal policies compare equal.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Literal

__all__ = ["NetworkMode", "check_policy", "normalize_hosts"]

NetworkMode = Literal["public", "no-network", "allowlist"]

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def normalize_hosts(hosts: list[str]) -> list[str]:
    """The entries in normal form. Raises `ValueError` naming the first one that is none."""
    return [_normalize(host) for host in hosts]


def check_policy(mode: NetworkMode | None, hosts: list[str] | None) -> None:
    """Raises `ValueError` where hosts are listed under a mode that has no list."""
    if mode is None and hosts is not None:
        raise ValueError('allowed_hosts needs network_mode = "allowlist" beside it')
    if mode not in (None, "allowlist") and hosts:
        raise ValueError(f'allowed_hosts goes with network_mode = "allowlist" only, found network_mode = "{mode}"')


def _normalize(entry: str) -> str:
    host = entry.strip().lower().rstrip(".")
    if not host:
        raise ValueError(f"allowed_hosts: {entry!r} names no host")
    if "/" in host or ":" in host:
        try:
            if "%" in host:
                raise ValueError(host)
            if "/" in host:
                return ipaddress.ip_network(host, strict=True).compressed
            return ipaddress.IPv6Address(host).compressed
        except ValueError:
            raise ValueError(
                f"allowed_hosts: {entry!r} is neither a host name, an IP address nor a CIDR range "
                "(no URLs, ports or paths; a range must have no host bits set)"
            ) from None
    name = host.removeprefix("*.")
    if "*" in name:
        raise ValueError(f"allowed_hosts: {entry!r}: a wildcard may only be a leading '*.'")
    if name != host and _is_ip(name):
        raise ValueError(f"allowed_hosts: {entry!r}: a wildcard must stand before a host name, not an address")
    if not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise ValueError(
            f"allowed_hosts: {entry!r} is not a host name (letters, digits and hyphens, separated by dots)"
        )
    return host


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
