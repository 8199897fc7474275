"""Network loss by plant in the heat year, units made equal, the mistyped month corrected."""

from __future__ import annotations

import csv
import re

from envkit.tasks.office.solutions.reading import ROOT, answer, find_mail, mail_body, sheet


def main() -> None:
    terms = {row[0]: str(row[1]) for row in sheet("Fjordlys/Plant register.xlsx", "Terms")}
    factor = re.search(r"1 MWh = ([\d.]+) GJ", terms["Production"])
    text = mail_body(find_mail("Typing error"))
    fixed = re.search(r"\((FL-\d\d)\) in January 2025 .* right figure is ([\d.,]+) MWh", text, re.S)
    if not factor or not fixed:
        raise LookupError("unit or correction can't be read")
    produced: dict[str, float] = {}
    sold: dict[str, float] = {}
    towns: dict[str, str] = {}
    with (ROOT / "Fjordlys/Production 2024-2025.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter=";"):
            if not "2024-06" <= row["month"] <= "2025-05":
                continue
            plant = row["plant"]
            towns[plant] = row["town"]
            sales = _danish(row["heat_sold_mwh"])
            if plant == fixed.group(1) and row["month"] == "2025-01":
                sales = _danish(fixed.group(2))
            produced[plant] = produced.get(plant, 0.0) + _danish(row["heat_produced_gj"]) / float(factor.group(1))
            sold[plant] = sold.get(plant, 0.0) + sales
    loss = {plant: 1 - sold[plant] / produced[plant] for plant in produced}
    top = sorted(loss, key=lambda plant: -loss[plant])[:3]
    total = 1 - sum(sold.values()) / sum(produced.values())
    answer(
        f"The worst were {towns[top[0]]} ({loss[top[0]]:.1%}), {towns[top[1]]} and {towns[top[2]]}. "
        f"All plants together: {total:.1%}."
    )


def _danish(text: str) -> float:
    return float(text.rstrip(".").replace(".", "").replace(",", "."))


if __name__ == "__main__":
    main()
