"""`envkit doctor` on this harness: real servers in a real sandbox."""

from __future__ import annotations

import pytest

from envkit.harnesses.archipelago import ArchipelagoHarness
from envkit.harnesses.archipelago.doctor import PACKAGES


@pytest.mark.slow
def test_it_says_that_the_servers_start_and_what_code_can_import():
    report = ArchipelagoHarness().doctor()
    assert report.usable, report
    assert report.details["tool servers"].startswith("21 tools, ready in ")
    assert report.details["code execution"] == ", ".join(PACKAGES)


@pytest.mark.slow
def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("envkit.harnesses.archipelago.doctor.PACKAGES", ("json", "nonesuch"))
    report = ArchipelagoHarness().doctor()
    assert not report.usable
    assert report.details["code execution"] == "can't import nonesuch"
    assert "envkit.sandbox.runtime" in report.remedy
