"""Number formats as Excel shows them, and the exact value where what is seen says less."""

from __future__ import annotations

import datetime as dt

import pytest

from envkit.harnesses.archipelago.servers.sheets.display import cell_text, seen
from envkit.office.workbook import UNKNOWN
from envkit.office.workbook.values import ErrorValue

_ACCOUNTING = '_(* #,##0.00_);_(* (#,##0.00);_(* "-"??_);_(@_)'


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (0.1537, "0%", "15%"),
        (0.055, "0.0%", "5.5%"),
        (1234.5, "$#,##0.00", "$1,234.50"),
        (7, "000", "007"),
        (-1234.5, "$#,##0.00;[Red]($#,##0.00)", "($1,234.50)"),
        (1234567, '$0.0,,"M"', "$1.2M"),
        (-5, "0.0", "-5.0"),
        (0, '#,##0;-#,##0;"-"', "-"),
        (0, _ACCOUNTING, "-"),
        (5, _ACCOUNTING, "5.00"),
        (-5, _ACCOUNTING, "(5.00)"),
        (1.5, "# ?/?", "1 1/2"),
        (0.25, "# ?/?", "1/4"),
        (12345, "0.00E+00", "1.23E+04"),
        (0.00012, "0.0E+00", "1.2E-04"),
        (1234, "[$€-407] #,##0.00", "€ 1,234.00"),
        (150, '[>100]"big";"small"', "big"),
        (50, '[>100]"big";"small"', "small"),
        (5551234567, "(000) 000-0000", "(555) 123-4567"),
        (2.5, "0", "3"),
        (-0.4, "0", "0"),
        (1.5, "0.###", "1.5"),
        (5, '0 "units"', "5 units"),
        (0.5, ".00", ".50"),
        (1e20, "General", "1E+20"),
        (1 / 3, "General", "0.333333333333333"),
        (45000.5, "d/m/yyyy h:mm AM/PM", "15/3/2023 12:00 PM"),
        (45000, "dddd, mmm dd", "Wednesday, Mar 15"),
        (1.25, "[h]:mm:ss", "30:00:00"),
        (0.5, "mm:ss", "00:00"),
        (1234567, "#,##0,", "1,235"),
        (3, "@", "3"),
    ],
)
def test_numbers_as_seen(value: float, code: str, text: str) -> None:
    assert seen(value, code).strip() == text


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (0.15, "0%", "15%"),
        (0.1537, "0%", "15% [0.1537]"),
        (1234567.891, "#,##0", "1,234,568 [1234567.891]"),
        (1234567, '$0.0,,"M"', "$1.2M [1234567]"),
        (-1234.5, "$#,##0.00;($#,##0.00)", "($1,234.50)"),
        (0.5, ";;;", "0.5"),
        (5, '0 "units"', "5 units"),
        (None, "0", ""),
        (True, "0", "TRUE"),
        ("text", "0.00", "text"),
        (12, "General", "12"),
        (UNKNOWN, "0", "#not-calculated"),
        (ErrorValue("#N/A"), "0", "#N/A"),
        (0.1 + 0.2, "General", "0.3"),
        (dt.datetime(2024, 3, 5), "d/m/yy", "2024-03-05"),
        (dt.datetime(2024, 3, 5, 14, 30), "m/d/yy h:mm", "2024-03-05 14:30"),
        (dt.timedelta(hours=30), "[h]:mm", "30:00:00"),
        (dt.time(9, 5), "h:mm", "09:05:00"),
    ],
)
def test_cells_as_read(value: object, code: str, text: str) -> None:
    assert cell_text(value, code) == text  # type: ignore[arg-type]
