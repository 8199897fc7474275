"""Byte-stable zip packages.

python-docx and python-pptx stamp the current time into the archive and keep whatever order the parts were added in.
`freeze` rewrites such an archive with sorted members, one fixed time stamp and fixed document properties, so that the
same content is always the same file. Used by every renderer of a zip-based format.
"""

from __future__ import annotations

import io
import re
import zipfile
from datetime import datetime

__all__ = ["freeze"]

_EPOCH = (1980, 1, 1, 0, 0, 0)
_STAMPS = re.compile(rb"(<dcterms:(created|modified)[^>]*>)[^<]*(</dcterms:)")


def freeze(data: bytes, when: datetime) -> bytes:
    """Rewrites a zip archive so that its bytes depend on its content and `when` only.

    Workbooks embedded by charts are frozen too. `when` is taken as UTC and becomes both document dates.
    """
    stamp = when.strftime("%Y-%m-%dT%H:%M:%SZ").encode()
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as source,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as target,
    ):
        names = sorted(source.namelist(), key=lambda name: (name != "[Content_Types].xml", name))
        for name in names:
            body = source.read(name)
            if name == "docProps/core.xml":
                body = _STAMPS.sub(rb"\g<1>" + stamp + rb"\g<3>", body)
            elif name.endswith((".xlsx", ".docx", ".pptx")):
                body = freeze(body, when)
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o600 << 16
            target.writestr(info, body)
    return out.getvalue()
