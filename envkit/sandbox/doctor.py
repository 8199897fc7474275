"""What the local provider finds on this machine, and what to do about what is missing."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from envkit.failure import CapabilityError
from envkit.sandbox import bwrap, cgroup, seccomp
from envkit.sandbox.base import ProviderReport
from envkit.sandbox.runtime import find_interpreter, find_runtime

if TYPE_CHECKING:
    from envkit.sandbox.local import LocalProvider

__all__ = ["report"]


def report(provider: LocalProvider) -> ProviderReport:
    """One line per probe. Usable means that a sandbox would start; limits that can't be enforced are named."""
    details: dict[str, str] = {}
    remedies: list[str] = []
    usable = True
    root = os.geteuid() == 0
    details["user"] = "root; every sandbox gets a host user of its own" if root else f"uid {os.getuid()}; rlimits only"
    try:
        path = bwrap.find(root)
        details["bubblewrap"] = f"{'.'.join(map(str, bwrap.version(path)))} at {path}"
        problem = bwrap.probe(path, root)
        details["user namespaces"] = problem or "work"
        if problem:
            usable = False
            remedies.append(str(bwrap.diagnose(problem) or problem))
    except (CapabilityError, OSError, subprocess.SubprocessError) as error:
        usable = False
        details["bubblewrap"] = "missing"
        remedies.append(str(error))
    layout = (
        provider.layout() if root else cgroup.Layout(problems=("not root: memory is limited per process, cpu not",))
    )
    details["cgroups"] = str(layout)
    for problem in layout.problems:
        details.setdefault("limits not enforced", "")
        details["limits not enforced"] = "; ".join(filter(None, (details["limits not enforced"], problem)))
    details["system call filter"] = "on" if seccomp.program() is not None else f"none for {os.uname().machine}"
    try:
        interpreter = find_interpreter()
        details["python inside"] = f"{interpreter.path} {'.'.join(map(str, interpreter.version))}"
        runtime = find_runtime()
        if runtime is not None:
            details["office runtime"] = str(runtime.packages)
        else:
            details["office runtime"] = "not built yet"
            remedies.append(
                "`python -m envkit.sandbox.runtime` builds the office runtime (the first sandbox does, too)"
            )
    except CapabilityError as error:
        usable = False
        details["python inside"] = "none"
        remedies.append(str(error))
    return ProviderReport(provider.name, usable, details, "; ".join(remedies) or None)
