"""The code app: one tool, `code_exec`, which runs bash where the files are.

Nothing heavy is imported here; `running.py` holds the handler. Used by the server process.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from envkit.harnesses.archipelago.servers.app import App, Arguments, Tool

__all__ = ["APP", "CodeArguments", "CodeResult"]


class CodeArguments(Arguments):
    """What to run."""

    code: str = Field(description="Bash: one command or a script. Python is run as: python3 - <<'EOF' ... EOF")


class CodeResult(BaseModel):
    """How it ended."""

    success: bool = Field(description="Whether it ended with exit code 0, in time")
    output: str = Field(description="What it printed, errors too, in order; then its exit code where that is not 0")


APP = App(
    name="code",
    server="code_execution_server",
    package="code",
    tools=(
        Tool(
            name="code_exec",
            description="Run bash commands in /filesystem (real paths: /filesystem/..., /tmp) and get what they print "
            "and their exit code. python3 has pandas, numpy, openpyxl, python-docx, python-pptx, pdfplumber, pypdf and "
            "matplotlib. Ended after five minutes; start longer work in the background.",
            arguments=CodeArguments,
            handler="running:code_exec",
            wrapper="request",
            result=CodeResult,
        ),
    ),
)
