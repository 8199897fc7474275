"""Single edits of JSON, by changing the value and writing it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from diff_edits.edit import Edit, Expected

SUFFIX = "json"


def samples() -> dict[str, bytes]:
    orders = [
        {"id": n, "customer": f"Customer {n * 7 % 11}", "amount": n * 12.5, "paid": n % 2 == 0, "tags": ["a", f"t{n}"]}
        for n in range(1, 12)
    ]
    value = {
        "title": "Orders", "version": 2, "rate": 0.25, "note": None, "live": True, "orders": orders,
        "cities": ["Lyon", "Ghent", "Porto", "Turku"], "matrix": [[1, 2], [3, 4]], "nested": {"a": {"b": 1}},
    }  # fmt: skip
    return {"orders": json.dumps(value).encode()}


def edited(change: Callable[[Any], Any], *expected: tuple[str, str | None]) -> Edit:
    def edit(data: bytes) -> tuple[bytes, Expected]:
        value = json.loads(data)
        change(value)
        return json.dumps(value, indent=1).encode(), list(expected)

    return edit


def put(path: str, new: Any) -> Callable[[Any], None]:
    *steps, last = [int(p) if p.isdigit() else p for p in path.split(".")]

    def change(value: Any) -> None:
        for step in steps:
            value = value[step]
        value[last] = new

    return change


EDITS: dict[str, Edit] = {
    "text": edited(put("title", "Bills"), ("value.changed", "$.title")),
    "whole number": edited(put("version", 3), ("value.changed", "$.version")),
    "fraction": edited(put("rate", 0.26), ("value.changed", "$.rate")),
    "truth": edited(put("live", False), ("value.changed", "$.live")),
    "number to text": edited(put("version", "2"), ("value.type", "$.version")),
    "null to text": edited(put("note", ""), ("value.type", "$.note")),
    "truth to number": edited(put("live", 1), ("value.type", "$.live")),
    "list to object": edited(put("cities", {}), ("value.type", "$.cities")),
    "key added": edited(put("extra", 1), ("value", "$.extra")),
    "key removed": edited(lambda v: v.pop("rate"), ("value", "$.rate")),
    "key renamed": edited(lambda v: v.update(Title=v.pop("title")), ("value", "$.title"), ("value", "$.Title")),
    "nested value": edited(put("nested.a.b", 2), ("value.changed", "$.nested.a.b")),
    "nested key added": edited(put("nested.a.c", 2), ("value", "$.nested.a.c")),
    "field of a record": edited(put("orders.4.amount", 1), ("value.changed", "$.orders[4].amount")),
    "id of a record": edited(put("orders.4.id", 99), ("value.changed", "$.orders[4].id")),
    "record inserted": edited(lambda v: v["orders"].insert(3, {"id": 77, "customer": "New", "amount": 1}),
                              ("value", "$.orders[3]")),
    "record removed": edited(lambda v: v["orders"].pop(6), ("value", "$.orders[6]")),
    "record moved": edited(lambda v: v["orders"].append(v["orders"].pop(2)), ("value.order", "$.orders[2]")),
    "field of a record removed": edited(lambda v: v["orders"][2].pop("paid"), ("value", "$.orders[2].paid")),
    "item of a list": edited(put("cities.1", "Antwerp"), ("value.changed", "$.cities[1]")),
    "item inserted": edited(lambda v: v["cities"].insert(1, "Cork"), ("value", "$.cities[1]")),
    "item removed": edited(lambda v: v["cities"].pop(0), ("value", "$.cities[0]")),
    "item moved": edited(lambda v: v["cities"].append(v["cities"].pop(0)), ("value.order", "$.cities[0]")),
    "item of a matrix": edited(put("matrix.1.0", 30), ("value.changed", "$.matrix[1][0]")),
    "tag of a record": edited(put("orders.0.tags.1", "zz"), ("value.changed", "$.orders[0].tags[1]")),
}  # fmt: skip

RESAVES: dict[str, Callable[[bytes], bytes]] = {
    "indented and sorted": lambda data: json.dumps(json.loads(data), indent=2, sort_keys=True).encode(),
    "fractions for whole numbers": lambda data: data.replace(b'"version": 2', b'"version": 2.0'),
    "marked": lambda data: b"\xef\xbb\xbf" + data,
}
