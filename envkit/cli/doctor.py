"""`envkit doctor`: what this machine can run, and what to install for the rest."""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import warnings
from importlib.util import find_spec
from typing import Any

from envkit import __version__, plugins
from envkit.failure import EnvkitError
from envkit.home import envkit_home

__all__ = ["add_arguments", "run"]

#: Optional parts: what they are for, the module that shows they are there, and how to get it.
OPTIONAL = {
    "docker": ("the docker sandbox", "docker", "pip install docker, and a running dockerd"),
    "modal": ("the modal sandbox", "modal", "pip install modal"),
    "torch": ("training and the embedded engine", "torch", "pip install torch"),
    "ray": ("clusters", "ray", "pip install ray"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace) -> int:
    report = examine()
    if args.json:
        print(json.dumps(report, ensure_ascii=False, indent=1))
    else:
        print(_text(report))
    return 0 if any(s["usable"] and s["name"] != "host" for s in report["sandboxes"]) else 1


def examine() -> dict[str, Any]:
    """Probes this machine; starts nothing that outlives the call."""
    home = envkit_home()
    try:
        home.mkdir(parents=True, exist_ok=True)
        free_gb: float | None = round(shutil.disk_usage(home).free / 1e9, 1)
    except OSError:
        free_gb = None
    sandboxes = [_asked("sandboxes", name) for name in plugins.names("sandboxes")]
    harnesses = [_asked("harnesses", name) for name in plugins.names("harnesses")]
    return {
        "envkit": __version__,
        "python": sys.version.split()[0],
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "home": str(home),
        "free_gb": free_gb,
        "sandboxes": sandboxes,
        "harnesses": harnesses,
        "policies": list(plugins.names("policies")),
        "packs": list(plugins.names("tasks")),
        "verifiers": list(plugins.names("verifiers")),
        "optional": {
            name: {"for": use, "present": find_spec(module) is not None, "install": how}
            for name, (use, module, how) in OPTIONAL.items()
        },
    }


def _asked(group: plugins.Group, name: str) -> dict[str, Any]:
    """What a plug-in says of itself; one without a `doctor` needs nothing but to be loaded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # looking at the unisolated sandbox is not using it
            doctor = getattr(plugins.construct(group, name), "doctor", None)
            if doctor is None:
                return {"name": name, "usable": True, "details": {}, "remedy": None}
            report = doctor()
    except (EnvkitError, ImportError, OSError) as error:
        return {"name": name, "usable": False, "details": {}, "remedy": str(error)}
    return {"name": name, "usable": report.usable, "details": dict(report.details), "remedy": report.remedy}


def _text(report: dict[str, Any]) -> str:
    room = "unknown" if report["free_gb"] is None else f"{report['free_gb']} GB free"
    lines = [
        f"envkit {report['envkit']}, Python {report['python']}, {report['system']}",
        f"home       {report['home']} ({room})",
    ]
    for kind, asked in (("sandbox", report["sandboxes"]), ("harness", report["harnesses"])):
        for part in asked:
            lines.append(f"{kind:<10} {part['name']:<8} {'usable' if part['usable'] else 'NOT usable'}")
            lines += [f"             {key}: {value}" for key, value in part["details"].items()]
            if part["remedy"]:
                lines.append(f"             to do: {part['remedy']}")
    for kind in ("policies", "packs", "verifiers"):
        lines.append(f"{kind:<10} {', '.join(report[kind]) or 'none'}")
    for name, part in report["optional"].items():
        state = "present" if part["present"] else f"absent (only for {part['for']}; {part['install']})"
        lines.append(f"optional   {name:<8} {state}")
    return "\n".join(lines)
