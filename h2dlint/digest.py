"""The hash that tells contents apart, without the libraries that come with `hashlib` and take milliseconds to load."""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # another Python
    from hashlib import blake2b

__all__ = ["blake2b", "digest_of"]

SIZE = 16


def digest_of(data: bytes) -> bytes:
    """What tells one content from any other: 16 bytes."""
    return blake2b(data, digest_size=SIZE).digest()
