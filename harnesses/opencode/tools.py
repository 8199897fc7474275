"""The tools' names, parameters and descriptions: OpenCode 1.18's interface, in our words.

Parameters are data, from which both the JSON schema that the model sees and the check of its arguments are made, so
that they can't differ. The list is fixed when a session opens.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from envkit.messages import ToolSpec
from envkit.sandbox.base import FILESYSTEM

__all__ = ["TOOLS", "TOOL_NAMES", "Parameter", "Tool", "specs"]

Kind = Literal["string", "integer", "boolean", "todos"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. `least` is the smallest integer allowed; `text` describes it, `short` for compact prompts."""

    name: str
    kind: Kind
    text: str
    required: bool = False
    least: int | None = None

    def schema(self, compact: bool) -> dict[str, Any]:
        if self.kind == "todos":
            fields = {
                "content": {"type": "string"},
                "status": {"type": "string"},
                "priority": {"type": "string"},
            }
            if not compact:
                fields["content"]["description"] = "What is to be done, in a few words"
                fields["status"]["description"] = "pending, in_progress, completed or cancelled"
                fields["priority"]["description"] = "high, medium or low"
            items = {"type": "object", "properties": fields, "required": list(fields)}
            out: dict[str, Any] = {"type": "array", "items": items}
        else:
            out = {"type": self.kind}
        if self.least is not None:
            out["minimum"] = self.least
        if not compact:
            out["description"] = self.text
        return out


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    text: str
    short: str
    parameters: tuple[Parameter, ...]

    def spec(self, compact: bool) -> ToolSpec:
        return ToolSpec(
            name=self.name,
            description=self.short if compact else self.text,
            parameters={
                "type": "object",
                "properties": {p.name: p.schema(compact) for p in self.parameters},
                "required": [p.name for p in self.parameters if p.required],
            },
        )


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "bash",
            "Runs a bash command and returns what it prints, standard output and standard error together. Every call "
            "starts a fresh shell in /filesystem: variables and cd do not last from call to call. Nothing can be typed "
            "in while it runs. Of a long output you see the end; the rest is saved to a file that is named. Use "
            "it for Python scripts and office files (openpyxl, python-docx, python-pptx, pdfplumber, pandas and more "
            "are installed), and read, grep, glob, write and edit for text files.",
            "Run a bash command in a fresh shell. Python 3 has openpyxl, docx, pptx, pdfplumber, pandas.",
            (
                Parameter("command", "string", "The command, as for bash -c", required=True),
                Parameter("timeout", "integer", "Milliseconds after which it is stopped; 120000 if left out", least=1),
                Parameter("workdir", "string", "The folder to run it in; /filesystem if left out"),
            ),
        ),
        Tool(
            "edit",
            "Replaces text in a file. oldString must be the file's text exactly as it stands, with its indentation and "
            "line breaks, but without the line numbers that read puts in front. It must fit one place only: give "
            "enough of the lines around it, or set replaceAll to change every place. An empty oldString makes a new "
            "file. For text files; change office files with Python through bash.",
            "Replace text in a file. oldString must be exact and unique.",
            (
                Parameter("filePath", "string", "The file to change, as an absolute path", required=True),
                Parameter("oldString", "string", "The text to replace", required=True),
                Parameter("newString", "string", "What to put in its place", required=True),
                Parameter("replaceAll", "boolean", "Replace every place where oldString stands; false if left out"),
            ),
        ),
        Tool(
            "glob",
            "Finds files by name and returns their absolute paths, sorted, at most 100. * and ? stay within one name, "
            "** goes through folders, {a,b} gives alternatives. A pattern without a slash fits in every folder below "
            "path. Names that begin with a dot are left out unless the pattern fits them; folders are not listed.",
            "Find files by name pattern, such as **/*.xlsx.",
            (
                Parameter("pattern", "string", "The pattern, such as **/*.pdf", required=True),
                Parameter("path", "string", "The folder to search in; /filesystem if left out"),
            ),
        ),
        Tool(
            "grep",
            "Searches the contents of text files for a regular expression (Rust syntax: no look-around, no back "
            "references) and returns the matching lines with file and line number, sorted by file, at most 100. It is "
            "case-sensitive unless the expression begins with (?i). It does not look into office files or PDFs.",
            "Search text files for a regular expression.",
            (
                Parameter("pattern", "string", "The regular expression", required=True),
                Parameter("path", "string", "The folder to search in; /filesystem if left out"),
                Parameter("include", "string", "Only files that fit this pattern, such as *.{txt,md}"),
            ),
        ),
        Tool(
            "read",
            "Shows a text file with a line number in front of each line (N: text), or the entries of a folder. Up to "
            "2000 lines and 50 KB at once; go on with offset. Lines longer than 2000 characters are cut. It can't show "
            "office files, PDFs or images: open these with Python through bash.",
            "Show a text file with line numbers, or a folder.",
            (
                Parameter("filePath", "string", "The file or folder, as an absolute path", required=True),
                Parameter("offset", "integer", "The first line to show, counted from 1", least=0),
                Parameter("limit", "integer", "How many lines to show; 2000 if left out", least=0),
            ),
        ),
        Tool(
            "todowrite",
            "Keeps your list of things to do, for work with several steps. Give the whole list each time; it replaces "
            "the one before. Mark one item in_progress while you work on it and completed as soon as it is done.",
            "Write down the list of steps; replaces the last one.",
            (Parameter("todos", "todos", "The whole list", required=True),),
        ),
        Tool(
            "write",
            "Writes a text file, with the folders that lead to it. A file that is there already is replaced as a "
            "whole; change a part of it with edit instead. For text files; make office files with Python through bash.",
            "Write a text file.",
            (
                Parameter("filePath", "string", "The file to write, as an absolute path", required=True),
                Parameter("content", "string", "The whole content", required=True),
            ),
        ),
    )
}

#: In the order in which they are offered, which is alphabetical as in OpenCode 1.18.
TOOL_NAMES: tuple[str, ...] = tuple(sorted(TOOLS))


def specs(compact: bool, folder: str = FILESYSTEM) -> tuple[ToolSpec, ...]:
    """The tools as the model sees them, where work is done in this folder."""
    found = tuple(TOOLS[name].spec(compact) for name in TOOL_NAMES)
    return found if folder == FILESYSTEM else tuple(_moved(spec, folder) for spec in found)


def _moved(spec: ToolSpec, folder: str) -> ToolSpec:
    text = json.dumps(spec.model_dump(mode="json"))
    return ToolSpec.model_validate_json(text.replace(FILESYSTEM, json.dumps(folder)[1:-1]))
