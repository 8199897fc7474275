"""`python -m envkit.sandbox.modal_control`: asks Modal whether it answers, or ends what dead owners left there.

A process of its own, because the SDK starts threads and those who collect garbage fork. Prints one line of JSON:
`{"found": ...}` or `{"error": words}`. Called by `ModalProvider.doctor` and `.collect`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

from envkit.deadline import Deadline
from envkit.failure import EnvkitError
from envkit.sandbox import modal_labels
from envkit.sandbox.modal_client import Gone, ask, client, sdk

_TOTAL_S = 40.0
_HELLO_S = 15.0


async def _hello() -> str:
    end = Deadline.after(_HELLO_S, f"{_HELLO_S:g} s")
    made = await end.wait(client())
    await ask("reach Modal", made.hello.aio(), end)
    return "answers"


async def _collect(app_name: str, environment: str | None, dry_run: bool) -> list[str]:
    end = Deadline.after(_TOTAL_S, f"{_TOTAL_S:g} s")
    modal, made = sdk(), await end.wait(client())
    try:
        app = await ask("find the app", modal.App.lookup.aio(app_name, client=made, environment_name=environment), end)
    except Gone:
        return []

    async def listed() -> list[Any]:
        found = modal.Sandbox.list.aio(app_id=app.app_id, tags=modal_labels.MARK, client=made)
        return [sandbox async for sandbox in found]

    removed = []
    for sandbox in await ask("list sandboxes", listed(), end):
        try:
            tags = await ask("read a sandbox's tags", sandbox.get_tags.aio(), end)
            if not modal_labels.is_dead(tags):
                continue
            if not dry_run:
                await ask("end a sandbox", sandbox.terminate.aio(), end)
        except Gone:
            continue  # it ended meanwhile
        except EnvkitError:
            if end.expired:
                break
            continue  # it stays tagged: the next collection tries again
        removed.append(f"modal sandbox {sandbox.object_id} {modal_labels.owner_of(tags)}")
    return removed


def main() -> None:
    parser = argparse.ArgumentParser(prog="modal_control")
    parser.add_argument("what", choices=["hello", "collect"])
    parser.add_argument("--app", default="envkit")
    parser.add_argument("--environment")
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args()
    work: Any = _hello() if given.what == "hello" else _collect(given.app, given.environment, given.dry_run)
    try:
        said: dict[str, Any] = {"found": asyncio.run(work)}
    except EnvkitError as error:
        said = {"error": str(error)}
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
