"""Number formats by what they show (currency with two decimals, a date), not by their code.

Programs rewrite codes freely (`m/d/yy` becomes `mm/dd/yyyy`, accounting formats change their padding), so that two
codes are compared by class.
"""

from __future__ import annotations

import re
from functools import lru_cache

from envkit.office.workbook.values import serial_kind

__all__ = ["BUILTIN", "format_class", "is_date_format"]

#: Codes that files refer to by number alone.
BUILTIN = {
    0: "General", 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 5: '"$"#,##0_);("$"#,##0)',
    6: '"$"#,##0_);[Red]("$"#,##0)', 7: '"$"#,##0.00_);("$"#,##0.00)', 8: '"$"#,##0.00_);[Red]("$"#,##0.00)',
    9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?", 13: "# ??/??", 14: "mm-dd-yy", 15: "d-mmm-yy", 16: "d-mmm",
    17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "m/d/yy h:mm",
    37: "#,##0 ;(#,##0)", 38: "#,##0 ;[Red](#,##0)", 39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;[Red](#,##0.00)",
    41: "_(* #,##0_);_(* (#,##0);_(* \"-\"_);_(@_)", 42: '_("$"* #,##0_);_("$"* (#,##0);_("$"* "-"_);_(@_)',
    43: '_(* #,##0.00_);_(* (#,##0.00);_(* "-"??_);_(@_)',
    44: '_("$"* #,##0.00_);_("$"* (#,##0.00);_("$"* "-"??_);_(@_)',
    45: "mm:ss", 46: "[h]:mm:ss", 47: "mmss.0", 48: "##0.0E+0", 49: "@",
}  # fmt: skip

_CURRENCY = re.compile(
    r"\[\$([^\]-]+)(?:-[0-9A-Fa-f]+)?\]|([$€£¥₩₹₽₺₪฿])|\"\s*([$€£¥₩₹₽₺₪฿]|[A-Z]{3}|kr|zł|Kč|Fr\.?)\s*\""
)


def is_date_format(code: str) -> bool:
    """Whether a number format shows a date or time."""
    return serial_kind(code) != ""


@lru_cache(maxsize=4096)
def format_class(code: str) -> str:
    """What a number format shows: `general`, `text`, `date`, `time`, `date and time`, `duration`, `fraction`,
    `scientific 2`, `percent 1`, `number 2`, `number 0, thousands`, `currency € 2`; digits are decimals."""
    section = code.split(";")[0]
    if section.strip().lower() in ("", "general", "standard"):
        return "general"
    kind = serial_kind(code)
    if kind == "duration":
        return "duration"
    plain = re.sub(r'"[^"]*"|\\.|_.|\*.', "", re.sub(r"\[[^\]]*\]", "", section))
    if kind:
        date = bool(re.search(r"[yd]", plain, re.IGNORECASE)) or not re.search(r"[hs]", plain, re.IGNORECASE)
        time = bool(re.search(r"[hs]", plain, re.IGNORECASE))
        return "date and time" if date and time else "date" if date else "time"
    if "@" in plain:
        return "text"
    decimals = len(re.sub(r"[^0#?]", "", plain.partition(".")[2].partition("E")[0]))
    if re.search(r"E[+-]", plain):
        return f"scientific {decimals}"
    if "%" in plain:
        return f"percent {decimals}"
    if re.search(r"[?0#]/[?0-9#]", plain):
        return "fraction"
    # A comma behind the last digit divides by a thousand: another number is shown.
    scaled = len(re.search(r"(,*)[^0#?,]*$", plain)[1]) if re.search(r"[0#?]", plain) else 0  # type: ignore[index]
    scale = f", in {'thousands' if scaled == 1 else 'millions' if scaled == 2 else f'1000^{scaled}'}" if scaled else ""
    currency = _CURRENCY.search(section)
    if currency:
        symbol = next(g for g in currency.groups() if g).strip()
        return f"currency {symbol} {decimals}{scale}"
    if not re.search(r"[0#?]", plain):
        return f"constant {code}"
    thousands = ", thousands" if "," in plain.rstrip(", ") else ""
    return f"number {decimals}{thousands}{scale}"
