"""Where large results may live: a folder, or a bucket of S3, behind one small protocol.

`open_store("runs/x")` or `open_store("s3://bucket/prefix")` gives a `Store`: objects by key, each written whole or not
at all, and known by the SHA-256 of its content, which every read checks. Snapshots (`envkit.snapshot.stored`),
checkpoints and buffers use it alike. S3 needs `envkit-rl[aws]`.
"""

from __future__ import annotations

from envkit.storage.base import (
    Exists,
    NotStored,
    Source,
    StorageError,
    StorageRefused,
    Store,
    Stored,
    Torn,
    open_store,
)

__all__ = [
    "Exists",
    "NotStored",
    "Source",
    "StorageError",
    "StorageRefused",
    "Store",
    "Stored",
    "Torn",
    "open_store",
]
