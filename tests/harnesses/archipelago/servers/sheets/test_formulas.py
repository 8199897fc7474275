"""Formulas between people and files, and what becomes of them when sheets and columns change."""

from __future__ import annotations

import pytest

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.sheets.formulas import (
    for_file,
    needs_array,
    quoted,
    renamed_column,
    renamed_sheet,
    shown,
    without_sheet,
)


@pytest.mark.parametrize(
    ("typed", "kept", "array"),
    [
        ("=XLOOKUP(A1,B:B,C:C)", "_xlfn.XLOOKUP(A1,B:B,C:C)", False),
        ("=LET(x,A1,x+1)", "_xlfn.LET(_xlpm.x,A1,_xlpm.x+1)", False),
        ("=FILTER(A1:A3,A1:A3>1)", "_xlfn._xlws.FILTER(A1:A3,A1:A3>1)", True),
        ("=MAP(A1:A3,LAMBDA(v,v*2))", "_xlfn.MAP(A1:A3,_xlfn.LAMBDA(_xlpm.v,_xlpm.v*2))", True),
        ("=SUM(A1#)", "SUM(_xlfn.ANCHORARRAY(A1))", False),
        ("=[@Amount]*2", "Deals[[#This Row],[Amount]]*2", False),
        ("=Deals[@[a b]]", "Deals[[#This Row],[a b]]", False),
        ("=IF(A1=\"FILTER(\",1,'x y'!A1)", "IF(A1=\"FILTER(\",1,'x y'!A1)", False),
        ("=STDEV.S(A1:A2)", "_xlfn.STDEV.S(A1:A2)", False),
        ("=SUM(A1:A3*B1:B3)", "SUM(A1:A3*B1:B3)", True),
        ("=SUMPRODUCT(A1:A3*B1:B3)", "SUMPRODUCT(A1:A3*B1:B3)", False),
        ("=_xlfn.XLOOKUP(A1,B:B,C:C)", "_xlfn.XLOOKUP(A1,B:B,C:C)", False),
        ("{=SUM(A1:A2)}", "SUM(A1:A2)", False),
    ],
)
def test_spelling(typed: str, kept: str, array: bool) -> None:
    found = for_file(typed, "A1", "Deals")
    assert (found, needs_array(found)) == (kept, array)
    assert "_xl" not in shown("=" + found)


def test_spelling_round_trip() -> None:
    for text in ("=XLOOKUP(A1,B:B,C:C)", "=LET(x,A1,x+1)", "=SUM(A1#)", "=Deals[@Amount]*2", "=Deals[@[a b]]"):
        assert shown("=" + for_file(text, "A1")) == text


def test_own_rows_need_a_table() -> None:
    with pytest.raises(ToolError, match="the cell is in none"):
        for_file("=[@x]*2", "A1")


def test_renamed_sheets() -> None:
    text = "Data!A1+'Da ta'!B2+SUM(Data:Z!A1)+\"Data!\"&[1]Data!A1+'[1]Data'!A1+T[Data!x]+#REF!+MyData!A1"
    assert renamed_sheet(text, "data", "New") == text.replace("Data!A1+'Da", "New!A1+'Da").replace("Data:Z", "New:Z")
    assert renamed_sheet("Data!A1+Data!$B:$B", "Data", "It's") == "'It''s'!A1+'It''s'!$B:$B"
    assert renamed_sheet("'It''s'!A1", "It's", "Plain") == "Plain!A1"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Data", "Data"),
        ("My Data", "'My Data'"),
        ("A1", "'A1'"),
        ("R1C1", "'R1C1'"),
        ("2024", "'2024'"),
        ("O'N", "'O''N'"),
        ("Größe", "Größe"),
    ],
)
def test_names_are_quoted_where_they_must_be(name: str, text: str) -> None:
    assert quoted(name) == text


def test_deleted_sheets() -> None:
    order = ["Jan", "Feb", "Mar", "Data"]
    assert without_sheet("Data!A1:B2*2+Data!foo+Data!$A:$A+Jan!A1", "Data", order) == "#REF!*2+#REF!+#REF!+Jan!A1"
    assert without_sheet("SUM(Jan:Mar!A1)", "Mar", order) == "SUM(Jan:Feb!A1)"
    assert without_sheet("SUM(Jan:Mar!A1)", "Feb", order) == "SUM(Jan:Mar!A1)"


def test_renamed_columns() -> None:
    text = '=SUM(Deals[Amount])+Deals[[#This Row],[Amount]]+Other[Amount]+"Deals[Amount]"'
    expected = '=SUM(Deals[Net])+Deals[[#This Row],[Net]]+Other[Amount]+"Deals[Amount]"'
    assert renamed_column(text, "Deals", "amount", "Net") == expected
