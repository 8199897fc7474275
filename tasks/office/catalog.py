"""What the office pack holds: its worlds and its tasks, as plain tables.

Imports nothing heavy; listing reads only this. A world belongs to one split, so the splits are disjoint by world. A
task's module under `jobs/` says the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TASKS", "VERSION", "WORLDS", "TaskEntry", "WorldEntry"]

#: Version of the pack and of its generator: any change to what is generated must change it.
VERSION = "1.2.0"


@dataclass(frozen=True)
class WorldEntry:
    """A world: `module` names the modules under `worlds/` (with `build()`) and `jobs/` (with `JOBS`)."""

    module: str
    domain: str
    split: str
    title: str


@dataclass(frozen=True)
class TaskEntry:
    """A task of a world.

    Attributes:
        difficulty: `easy`, `medium` or `hard`.
        family: What is asked for: `answer`, `new-file`, `edited-file` or `message` (mail, chat, calendar).
        apps: Kinds of file and application that the work touches.
        minutes: What an expert needs.
    """

    world: str
    difficulty: str
    family: str
    apps: tuple[str, ...]
    minutes: int


WORLDS: dict[str, WorldEntry] = {
    "harrow-pike": WorldEntry("harrow_pike", "consulting", "train", "Harrow & Pike LLP, consultancy in London"),
    "nordhavn": WorldEntry("nordhavn", "consulting", "eval", "Nordhavn Advisory A/S, consultancy in Copenhagen"),
    "tarrant-moss": WorldEntry("tarrant_moss", "law", "train", "Tarrant Moss LLP, commercial law firm in Bristol"),
    "vermeulen-roche": WorldEntry("vermeulen_roche", "law", "eval", "Vermeulen Roche, disputes boutique in Rotterdam"),
    "calder-lane": WorldEntry(
        "calder_lane", "investment-banking", "train", "Calder Lane Partners, merger advisers in New York"
    ),
    "morven": WorldEntry(
        "morven", "investment-banking", "eval", "Morven Capital Advisers LLP, debt advisers in Edinburgh"
    ),
}

TASKS: dict[str, TaskEntry] = {
    "lantern-payment-terms": TaskEntry("harrow-pike", "easy", "answer", ("pdf", "docx"), 5),
    "manager-utilisation-q3": TaskEntry("harrow-pike", "medium", "answer", ("csv", "xlsx", "docx", "mail"), 30),
    "lantern-november-invoice": TaskEntry(
        "harrow-pike", "hard", "new-file", ("csv", "pdf", "docx", "xlsx", "chat"), 75
    ),
    "store-closure-shortlist": TaskEntry("harrow-pike", "hard", "new-file", ("xlsx", "pdf", "chat", "mail", "csv"), 60),
    "steerco-deck-refresh": TaskEntry("harrow-pike", "medium", "edited-file", ("pptx", "xlsx", "mail"), 35),
    "ledger-january-postings": TaskEntry("harrow-pike", "medium", "edited-file", ("xlsx", "mail"), 20),
    "overdue-reminder-mail": TaskEntry("harrow-pike", "medium", "message", ("xlsx", "mail"), 20),
    "aalsund-tender-deadline": TaskEntry("nordhavn", "easy", "answer", ("pdf",), 5),
    "heat-loss-2024-25": TaskEntry("nordhavn", "medium", "answer", ("csv", "xlsx", "mail"), 25),
    "capex-ranking": TaskEntry("nordhavn", "hard", "new-file", ("xlsx", "docx", "mail", "chat"), 60),
    "aalsund-price-schedule": TaskEntry("nordhavn", "hard", "edited-file", ("xlsx", "pdf", "docx", "csv", "chat"), 45),
    "fjord-budget-postings": TaskEntry("nordhavn", "medium", "edited-file", ("xlsx", "mail", "chat"), 25),
    "fjord-status-memo": TaskEntry("nordhavn", "hard", "new-file", ("docx", "xlsx", "pdf", "mail"), 45),
    "fjord-steering-invite": TaskEntry("nordhavn", "medium", "message", ("calendar", "mail", "chat"), 20),
    "customer-consents": TaskEntry("calder-lane", "easy", "answer", ("xlsx", "pdf", "docx"), 15),
    "ltm-adjusted-ebitda": TaskEntry("calder-lane", "medium", "answer", ("xlsx", "pdf", "mail"), 25),
    "success-fee-estimate": TaskEntry("calder-lane", "medium", "answer", ("pdf", "docx", "csv", "mail"), 20),
    "ioi-comparison": TaskEntry("calder-lane", "hard", "new-file", ("xlsx", "pdf", "csv", "mail", "chat"), 75),
    "nwc-peg-schedule": TaskEntry("calder-lane", "hard", "new-file", ("csv", "xlsx", "docx", "mail"), 35),
    "comps-price-refresh": TaskEntry("calder-lane", "medium", "edited-file", ("xlsx", "csv", "chat"), 20),
    "cim-pages-update": TaskEntry("calder-lane", "hard", "edited-file", ("pptx", "xlsx", "pdf", "mail"), 40),
    "nda-status-post": TaskEntry("calder-lane", "easy", "message", ("xlsx", "mail", "chat"), 10),
    "curlew-maturity-dates": TaskEntry("morven", "easy", "answer", ("pdf", "docx"), 5),
    "june-leverage-gap": TaskEntry("morven", "hard", "answer", ("pdf", "xlsx", "csv", "mail"), 45),
    "portfolio-loan-to-value": TaskEntry("morven", "medium", "answer", ("pdf", "docx", "xlsx", "csv", "mail"), 30),
    "term-sheet-grid": TaskEntry("morven", "hard", "new-file", ("xlsx", "pdf", "docx", "mail"), 60),
    "board-terms-slides": TaskEntry("morven", "hard", "new-file", ("pptx", "pdf", "docx", "mail"), 60),
    "compliance-certificate-fix": TaskEntry(
        "morven", "hard", "edited-file", ("docx", "pdf", "xlsx", "csv", "mail"), 50
    ),
    "lender-log-update": TaskEntry("morven", "medium", "edited-file", ("xlsx", "mail"), 15),
    "lender-call-event": TaskEntry("morven", "easy", "message", ("calendar", "chat", "mail"), 10),
    "osterley-termination-notice": TaskEntry("tarrant-moss", "easy", "answer", ("docx", "pdf"), 8),
    "brightwater-liability-cap": TaskEntry("tarrant-moss", "hard", "answer", ("docx", "pdf", "xlsx", "mail"), 35),
    "chippenham-break-notice": TaskEntry("tarrant-moss", "hard", "answer", ("pdf", "docx", "csv", "mail"), 30),
    "pellow-key-dates": TaskEntry(
        "tarrant-moss", "hard", "new-file", ("xlsx", "docx", "pdf", "csv", "mail", "chat"), 75
    ),
    "amendment-two-conform": TaskEntry("tarrant-moss", "hard", "edited-file", ("docx", "pdf", "mail"), 40),
    "corrigan-privilege-log": TaskEntry("tarrant-moss", "hard", "new-file", ("csv", "pdf", "xlsx", "mail", "chat"), 90),
    "charge-out-rates-2026": TaskEntry("tarrant-moss", "medium", "edited-file", ("xlsx", "mail", "chat"), 15),
    "hallmark-exchange-mail": TaskEntry("tarrant-moss", "medium", "message", ("pdf", "csv", "mail"), 20),
    "kade-delay-damages": TaskEntry("vermeulen-roche", "easy", "answer", ("pdf", "docx"), 15),
    "kade-defence-deadline": TaskEntry("vermeulen-roche", "medium", "answer", ("pdf", "mail"), 20),
    "kade-august-fees": TaskEntry("vermeulen-roche", "hard", "answer", ("csv", "pdf", "mail", "chat"), 60),
    "kade-chronology": TaskEntry("vermeulen-roche", "hard", "new-file", ("docx", "pdf", "csv", "mail"), 50),
    "brasser-offers": TaskEntry("vermeulen-roche", "hard", "new-file", ("xlsx", "pdf", "docx", "mail"), 60),
    "oostwind-claims-register": TaskEntry("vermeulen-roche", "medium", "edited-file", ("xlsx", "mail"), 20),
    "kade-exposure-slide": TaskEntry("vermeulen-roche", "hard", "edited-file", ("pptx", "pdf", "docx", "mail"), 35),
    "kade-hearing-event": TaskEntry("vermeulen-roche", "medium", "message", ("calendar", "pdf", "mail", "chat"), 10),
    "brasser-missing-documents": TaskEntry("vermeulen-roche", "easy", "message", ("chat", "xlsx", "csv", "mail"), 10),
}
