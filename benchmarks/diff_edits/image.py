"""Single edits of pictures by Pillow: drawn on, cut, turned, coloured; saved again at other settings."""

from __future__ import annotations

import io
from collections.abc import Callable

from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps

from diff_edits.edit import Edit, Expected

SUFFIX = "png"


def _chart() -> Image.Image:
    image = Image.new("RGB", (480, 320), "white")
    draw = ImageDraw.Draw(image)
    for n, height in enumerate((120, 180, 90, 240, 200)):
        draw.rectangle((40 + 80 * n, 300 - height, 90 + 80 * n, 300), fill=(30 + 40 * n, 90, 200 - 30 * n))
    draw.line((20, 300, 460, 300), fill="black", width=3)
    draw.text((200, 15), "Sales by region", fill="black")
    return image


def _photo() -> Image.Image:
    """Soft shapes with some grain."""
    image = Image.radial_gradient("L").resize((400, 300)).convert("RGB")
    draw = ImageDraw.Draw(image)
    draw.ellipse((40, 60, 200, 260), fill=(180, 120, 60))
    draw.polygon([(220, 250), (300, 40), (380, 250)], fill=(60, 110, 70))
    return image.filter(ImageFilter.GaussianBlur(3))


def _saved(image: Image.Image, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG", **options)  # type: ignore[arg-type]
    return out.getvalue()


def samples() -> dict[str, bytes]:
    return {"chart": _saved(_chart()), "photo": _saved(_photo())}


def edited(change: Callable[[Image.Image], Image.Image | None], *expected: str) -> Edit:
    def edit(data: bytes) -> tuple[bytes, Expected]:
        image = Image.open(io.BytesIO(data)).convert("RGB")
        return _saved(change(image) or image), [(kind, None) for kind in expected]

    return edit


def drawn(act: Callable[[ImageDraw.ImageDraw], None]) -> Callable[[Image.Image], None]:
    return lambda image: act(ImageDraw.Draw(image))


PART, OTHER = "image.part", "image.content"
EDITS: dict[str, Edit] = {
    "bar taller": edited(drawn(lambda d: d.rectangle((60, 20, 120, 180), fill="red")), PART),
    "bar gone": edited(drawn(lambda d: d.rectangle((270, 55, 340, 298), fill="white")), PART),
    "word written": edited(drawn(lambda d: d.text((300, 30), "DRAFT", fill="red", font_size=30)), PART),
    "corner stamped": edited(drawn(lambda d: d.ellipse((340, 240, 390, 290), fill="green")), PART),
    "line drawn": edited(drawn(lambda d: d.line((0, 100, 400, 100), fill="purple", width=8)), PART),
    "part blackened": edited(drawn(lambda d: d.rectangle((100, 100, 200, 160), fill="black")), PART),
    "colour of a part": edited(drawn(lambda d: d.rectangle((40, 180, 90, 260), fill="orange")), PART),
    "another picture": edited(lambda i: Image.linear_gradient("L").resize(i.size).convert("RGB"), OTHER),
    "inverted": edited(ImageOps.invert, OTHER),
    "mirrored": edited(ImageOps.mirror, OTHER),
    "upside down": edited(ImageOps.flip, OTHER),
    "turned": edited(lambda i: i.rotate(90, expand=True), "image.size", OTHER),
    "turned about": edited(lambda i: i.rotate(180), OTHER),
    "blank": edited(lambda i: Image.new("RGB", i.size, "white"), OTHER),
    "tinted": edited(lambda i: Image.blend(i, Image.new("RGB", i.size, "red"), 0.3), "image.colours"),
    "part in grey": edited(
        lambda i: i.paste(ImageOps.grayscale(i.crop((50, 150, 150, 250))), (50, 150, 150, 250)), PART),
    "darker": edited(lambda i: ImageEnhance.Brightness(i).enhance(0.8), "image.colours"),
    "scaled": edited(lambda i: i.resize((i.width // 2, i.height // 2), Image.Resampling.LANCZOS), "image.size"),
    "halves swapped": edited(
        lambda i: i.transform(i.size, Image.Transform.AFFINE, (1, 0, i.width // 2, 0, 1, 0)), OTHER),
    "quarter enlarged": edited(lambda i: i.crop((0, 0, i.width // 2, i.height // 2)).resize(i.size), OTHER),
}  # fmt: skip


RESAVES: dict[str, Callable[[bytes], bytes]] = {
    "packed better": lambda data: _saved(Image.open(io.BytesIO(data)), optimize=True, compress_level=9),
    "with a palette of 256": lambda data: _saved(
        Image.open(io.BytesIO(data)).convert("P", palette=Image.Palette.ADAPTIVE)
    ),
    "with resolution": lambda data: _saved(Image.open(io.BytesIO(data)), dpi=(300, 300)),
}
