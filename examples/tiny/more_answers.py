"""Eight more tasks that are judged by the final answer alone, for the longer overfit run. See `demonstrations.py`.

All of them belong to the pack's evaluation split: weights that have imitated them may not be measured on that split.
"""

from __future__ import annotations

from examples.tiny.takes import Demonstration, Look, glob, grep

__all__ = ["ANSWERS"]

_MAIL = "/.apps_data/mail"
ANSWERS: dict[str, Demonstration] = {
    "aalsund-tender-deadline": Demonstration(
        (Look(glob("Aalsund/Addendum*"), 0.6), Look(glob("Aalsund/Tender*"), 0.2)),
        {
            "day": ("27 February 2026", "20 February 2026", "2 March 2026"),
            "hour": ("10:00", "12:00"),
            "channel": ("the portal Udbudsnet", "the town hall's reception"),
        },
        "The bid must be handed in by {day}, {hour} local time, through {channel}.",
    ),
    "heat-loss-2024-25": Demonstration(
        (Look(grep("heat sold by", _MAIL), 0.6), Look(glob("Fjordlys/Heat*"), 0.2)),
        {
            "names": ("Omø, Mosede and Fårup", "Ravnsholt, Omø and Mosede", "Omø, Fårup and Mosede"),
            "worst": ("28.2", "31.4", "27.6"),
            "total": ("20.6", "21.1", "19.8"),
        },
        "The largest losses were at {names}; the worst lost {worst}%. All plants together lost {total}%.",
    ),
    "kade-delay-damages": Demonstration(
        (Look(glob("Kade/Change*"), 0.6), Look(glob("Kade/Crane*"), 0.2)),
        {"damages": ("711,600", "769,500", "800,550"), "weeks": ("8", "9", "10")},
        "Kadewerk can claim EUR {damages} for {weeks} complete weeks of delay.",
    ),
    "kade-defence-deadline": Demonstration(
        (Look(glob("Kade/Procedural*"), 0.6), Look(grep("time for the Statement", _MAIL), 0.25)),
        {
            "received": ("10 August 2026", "7 August 2026"),
            "due": ("6 October 2026", "21 September 2026", "5 October 2026"),
        },
        "Claim received: {received}\nDefence due: {due}",
    ),
    "kade-august-fees": Demonstration(
        (Look(grep("are charged to Kadewerk", _MAIL), 0.6), Look(glob("Finance/*"), 0.2)),
        {
            "fees": ("41,544.82", "43,810.78", "42,360.40"),
            "disbursements": ("8,808.35", "9,117.85"),
            "total": ("59,583.34", "62,699.65", "60,927.36"),
        },
        "Fees after discount: EUR {fees}\nDisbursements: EUR {disbursements}\nTotal: EUR {total}",
    ),
    "curlew-maturity-dates": Demonstration(
        (Look(glob("Curlew/Ext*"), 0.6), Look(glob("Curlew/Facilities*"), 0.25)),
        {
            "revolver": ("30 September 2027", "30 September 2026"),
            "loans": ("31 March 2028", "31 March 2029", "30 September 2028"),
        },
        "The revolving facility falls due on {revolver}, the term loans on {loans}.",
    ),
    "june-leverage-gap": Demonstration(
        (Look(grep("as audited", _MAIL), 0.6), Look(glob("Curlew/Compliance*"), 0.2)),
        {
            "ebitda": ("27.83", "28.87", "28.08"),
            "debt": ("106.41", "106.43", "105.91"),
            "leverage": ("3.82", "3.69", "3.79"),
            "gap": ("shortfall against the June covenant is GBP 0.54", "surplus in June is GBP 0.49"),
        },
        "Consolidated EBITDA is GBP {ebitda} million.\nConsolidated Net Debt is GBP {debt} million.\n"
        "Leverage is {leverage}.\nThe {gap} million.",
    ),
    "portfolio-loan-to-value": Demonstration(
        (Look(grep("market value of the site", _MAIL), 0.6), Look(glob("Curlew/Valuation*"), 0.2)),
        {
            "loan": ("111.1", "117.1", "111.4"),
            "value": ("191.6", "205.8", "194.8"),
            "ratio": ("58.0", "56.9", "57.2"),
        },
        "Loan: GBP {loan} million. Value: GBP {value} million. Loan to value: {ratio}%.",
    ),
}
