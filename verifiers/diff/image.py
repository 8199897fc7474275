"""The diff of pictures: by what they look like. Compression, format of equal look and metadata are noise.

Kinds: `image.format`, `image.size`, `image.content` (another picture), `image.colours` (the same in other
colours), `image.part` (the same but for a part), `image.frames`, `image.transparent`.
"""

from __future__ import annotations

from envkit.office.image import SMALL, Picture, hash_distance
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.sequences import Fields, differing, one

__all__ = ["diff_image"]

_FIELDS: Fields[Picture] = {
    "format": lambda p: p.format,
    "size": lambda p: f"{p.width} x {p.height}",
    "frames": lambda p: p.frames,
    "transparent": lambda p: p.transparent,
}
_SAME_LOOK = 8
#: Difference of a point of the small copies (0 to 255) that counts: compression stays below it. And the share of such
#: points beyond which the whole picture is another, not a part of it.
_POINT, _MOST = 14, 0.35


def diff_image(before: Picture, after: Picture) -> list[Finding]:
    """The differences of two pictures."""
    out = differing("image", _FIELDS, before, after, "picture", "picture")
    if before.pixels == after.pixels:
        return out
    gaps = [
        max(abs(before.small[i + c] - after.small[i + c]) for c in range(3)) for i in range(0, len(before.small), 3)
    ]
    share = sum(gap > _POINT for gap in gaps) / len(gaps)
    distance = hash_distance(before.look, after.look)
    # The look alone decides nothing: that of a symmetric picture turns on the noise of its compression.
    if share > _MOST or (share > _MOST / 3 and distance > 3 * _SAME_LOOK):
        looks = [f"{p.width} x {p.height}, look {p.look & (2**64 - 1):016x}" for p in (before, after)]
        kind = "image.content" if distance > _SAME_LOOK else "image.colours"
        out.append(one(kind, Change.CHANGED, "picture", "picture", *looks))
    elif share:
        changed = [i for i, gap in enumerate(gaps) if gap > _POINT]
        columns, rows = [i % SMALL for i in changed], [i // SMALL for i in changed]
        area = [min(columns), min(rows), max(columns) + 1, max(rows) + 1]
        where = "picture, from {} % / {} % to {} % / {} %".format(*(round(100 * v / SMALL) for v in area))
        colours = []
        for p in (before, after):
            points = [p.small[3 * i : 3 * i + 3] for i in changed]
            colours.append(
                "mean colour #" + "".join(f"{sum(q[c] for q in points) // len(points):02x}" for c in range(3))
            )
        out.append(one("image.part", Change.CHANGED, where, where, *colours))
    return out
