"""The trimmed SDK: what a server needs is there, the rest comes back whole when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_neither_web_stack_nor_clients_are_loaded_and_other_libraries_stay_whole():
    script = """
import sys
from envkit.harnesses.archipelago.servers import lean
lean.slim()
with lean.deferred():
    import mcp.types
from envkit.harnesses.archipelago.servers import host
lean.restore()
unwanted = ("starlette", "uvicorn", "httpx", "jsonschema", "mcp.client", "numpy")
loaded = [name for name in unwanted if name in sys.modules]
import httpx, jsonschema
from pydantic import BaseModel
print(loaded, httpx.Client.__name__, jsonschema.validate.__name__, BaseModel.model_config)
"""
    assert run(script) == "[] Client validate {}"


def test_a_tool_list_is_answered_without_importing_any_handler():
    script = """
import sys
from envkit.harnesses.archipelago.servers import catalog
catalog.published(catalog.APPS, "meta")
heavy = ("openpyxl", "docx", "pptx", "pypdfium2", "numpy", "lxml", "PIL", "reportlab", "formualizer")
print([name for name in heavy if name in sys.modules])
"""
    assert run(script) == "[]"


@pytest.mark.slow
def test_an_sdk_that_needs_more_is_imported_whole():
    script = """
from envkit.harnesses.archipelago.servers import lean
lean.slim()
import mcp.types
lean.undo()
import mcp
from envkit.harnesses.archipelago.servers import host
print(mcp.ClientSession.__name__, host.Host.__name__)
"""
    assert run(script) == "ClientSession Host"
