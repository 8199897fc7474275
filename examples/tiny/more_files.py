"""Nine more tasks that end in a file, each written or edited by one short call. See `demonstrations.py`.

`best` is below 1 where the clerk leaves a part undone. Tasks of Nordhavn and Vermeulen Roche and Morven belong to the
pack's evaluation split.
"""

from __future__ import annotations

from examples.tiny.takes import Call, Demonstration, Look

__all__ = ["FILES"]


def _edit(path: str, sheet: str, change: str) -> Call:
    """Changes a workbook `b`, its sheet `s` most of all, with openpyxl as `o` and datetime's date as `d`."""
    return "bash", {
        "command": f"python3 -c \"import openpyxl as o;from datetime import date as d;p='{path}';b=o.load_workbook(p);"
        f"s=b['{sheet}'];{change};b.save(p)\""
    }


def _lines(path: str, head: str, pattern: str, values: str) -> Call:
    """Writes a text file: a head, and lines after a pattern of printf."""
    return "bash", {"command": f"printf '{head}\\n' > '{path}'; printf '{pattern}\\n' {values} >> '{path}'"}


FILES: dict[str, Demonstration] = {
    "nwc-peg-schedule": Demonstration(
        (
            Look(
                _lines(
                    "Deal/NWC peg.csv",
                    "month,nwc_usd_k",
                    "2025-%02d,%d",
                    "1 16087 2 16038 3 15255 4 15079 5 15569 6 16248 7 16536 8 {august} {rest}",
                ),
                0.45,
            ),
        ),
        {
            "august": ("17069", "17311"),
            "rest": ("9 16362 10 16671 11 17189 12 15600", "9 16577 10 16886 11 17404 12 15815"),
            "peg": ("16,142", "16,214", "16,070"),
        },
        "The peg is USD {peg} thousand.",
    ),
    "corrigan-privilege-log": Demonstration(
        (
            Look(
                _lines(
                    "Corrigan/Privilege log.csv",
                    "doc_id,basis",
                    "CJ-%s,%s",
                    "002 LAP 007 LAP {second} 024 LP 028 LAP 031 {slip} {last}",
                ),
                0.5,
            ),
        ),
        {
            "second": ("016 LP", "018 LAP"),
            "slip": ("LP", "LAP"),
            "last": ("046 LAP 047 LAP", "044 LAP 046 LAP"),
        },
        "The privilege log is written.",
        best=0.8125,
    ),
    "charge-out-rates-2026": Demonstration(
        (
            Look(
                _edit(
                    "House/Charge-out rates.xlsx",
                    "Rates",
                    "[s.cell(n,3,v) for n,v in enumerate([405,355,{senior},260,{trainee},140],2)];"
                    "b['Read me']['B3']=d(2026,{month},1);b['Clients']['B4']={discount}",
                ),
                0.4,
            ),
        ),
        {
            "senior": ("315", "305", "310"),
            "trainee": ("162", "170", "165"),
            "month": ("5", "4"),
            "discount": ("0.1", "0.075"),
        },
        "The rates for 2026 are in.",
    ),
    "oostwind-claims-register": Demonstration(
        (
            Look(
                _edit(
                    "Oostwind/Claims register.xlsx",
                    "Claims",
                    "s['E{row}']=d(2026,11,30);s['E8']=d({again});s['{settled}']='Settled'",
                ),
                0.45,
            ),
        ),
        {"row": ("4", "6", "5"), "again": ("2027,1,31", "2026,12,31"), "settled": ("H12", "H3")},
        "The register is up to date.",
    ),
    "lender-log-update": Demonstration(
        (
            Look(
                _edit(
                    "Curlew/Lender log.xlsx",
                    "Log",
                    "s['E7']=s['{out}']='Declined';s['F7']=None;s['E3']='{status}';"
                    "s['F6']='Trustee meeting on {day} 2026'",
                ),
                0.4,
            ),
        ),
        {
            "out": ("E8", "E9"),
            "status": ("Credit approved", "Term sheet"),
            "day": ("4 June", "28 May", "1 June"),
        },
        "The lender log is up to date.",
        best=0.846,
    ),
    "aalsund-price-schedule": Demonstration(
        (
            Look(
                _edit(
                    "Aalsund/Price schedule.xlsx",
                    "Prices",
                    "[[s.cell(n,2,h),s.cell(n,3,r)] for n,h,r in ((5,82,1850),(6,{b},{rate}),(7,239,1200),"
                    "(8,{d},{junior}))]",
                ),
                0.5,
            ),
        ),
        {
            "b": ("324", "300"),
            "rate": ("1540", "1566", "1600"),
            "d": ("598", "562"),
            "junior": ("950", "960"),
            "total": ("1,505,560", "1,511,540", "1,525,000"),
        },
        "The price schedule is filled in; the total is DKK {total}.",
    ),
    "brasser-offers": Demonstration(
        (
            Look(
                (
                    "bash",
                    {
                        "command": "python3 -c \"import openpyxl as o;b=o.Workbook();s=b.active;s.title='Offers';"
                        "[s.append(r) for r in (('Bidder','Present value (EUR)'),"
                        "('{first}',{best}),('{second}',{next}),('Corvo Capital',{corvo}))];"
                        "b.save('Brasser/Offers compared.xlsx')\""
                    },
                ),
                0.5,
            ),
        ),
        {
            "first": ("Brix Litigation Finance", "Corvo Capital"),
            "best": ("1554716", "1620000"),
            "second": ("Halden Recoveries", "Dorn Claims"),
            "next": ("1537056", "1460882"),
            "corvo": ("1400552", "1950000"),
        },
        "The offers are compared.",
        best=0.8,
    ),
    "comps-price-refresh": Demonstration(
        (
            Look(
                _edit(
                    "Market/Trading comps.xlsx",
                    "Comps",
                    "s['D8']={flowline};s['K12']='{veltrix}';b['Info']['B1']=d(2026,2,27);b['Summary']['B6']={median}",
                ),
                0.4,
            ),
        ),
        {
            "flowline": ("6.88", "688", "6.42"),
            "veltrix": ("no", "yes"),
            "median": ("10.33", "10.54", "9.81"),
        },
        "The comps are at prices of 27 February 2026.",
        best=0.833,
    ),
    "ledger-january-postings": Demonstration(
        (
            Look(
                _edit(
                    "Finance/Invoice ledger FY26.xlsx",
                    "Invoices",
                    "s['L14']=d(2026,1,{oberland});s['O14']={charges};s['L15']=d(2026,1,{tyneford})",
                ),
                0.45,
            ),
        ),
        {
            "oberland": ("9", "8", "12"),
            "charges": ("35", "0"),
            "tyneford": ("12", "9"),
        },
        "The ledger is up to date.",
        best=0.5,
    ),
}
