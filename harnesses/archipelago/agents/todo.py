"""The toolbelt agent's to-do list: what `todo_write` does to it and says."""

from __future__ import annotations

from typing import Any

from envkit.failure import did_you_mean

__all__ = ["STATUSES", "TodoList"]

STATUSES = ("pending", "in_progress", "completed", "cancelled")
_DONE = frozenset({"completed", "cancelled"})


class TodoList:
    """Entries by id, in the order in which they were made."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, str]] = {}

    @property
    def unfinished(self) -> list[dict[str, str]]:
        return [entry for entry in self._entries.values() if entry["status"] not in _DONE]

    def write(self, todos: Any, merge: bool) -> dict[str, Any]:
        """Updates entries by id and adds new ones (`merge`), or replaces the whole list.

        What can't be used is left out and named in `errors`; the rest is done.
        """
        before = self._entries
        entries = dict(before) if merge else {}
        errors: list[str] = []
        created = updated = 0
        if isinstance(todos, dict):
            todos = [todos]
        if not isinstance(todos, list):
            todos, errors = [], [f"todos must be a list of objects, found {type(todos).__name__}"]
            entries = dict(before)
        for place, given in enumerate(todos):
            problem, entry = _entry(given, before)
            if entry is None:
                errors.append(f"todos[{place}]: {problem}")
                continue
            if entry["id"] in before:
                updated += 1
            else:
                created += 1
            entries[entry["id"]] = entry
        self._entries = entries
        counts = {status: sum(entry["status"] == status for entry in entries.values()) for status in STATUSES}
        out: dict[str, Any] = {
            "success": not errors,
            "created": created,
            "updated": updated,
            "todos": list(entries.values()),
            "summary": {"total": len(entries), **counts},
        }
        if errors:
            out["errors"] = errors
        return out


def _entry(given: Any, known: dict[str, dict[str, str]]) -> tuple[str, dict[str, str] | None]:
    if not isinstance(given, dict):
        return f"expected an object with id, content and status, found {type(given).__name__}", None
    id = given.get("id")
    if isinstance(id, int) and not isinstance(id, bool):
        id = str(id)
    if not isinstance(id, str) or not id.strip():
        return "its id is missing: a short text of your own", None
    old = known.get(id)
    content = given.get("content", old["content"] if old else None)
    if not isinstance(content, str) or not content.strip():
        return f"there is no to-do {id!r} yet, so it needs a content", None
    status = given.get("status", old["status"] if old else "pending")
    if status not in STATUSES:
        hint = did_you_mean(str(status), STATUSES)
        return f"status must be one of {', '.join(STATUSES)}, found {status!r}{hint}", None
    return "", {"id": id, "content": content, "status": status}
