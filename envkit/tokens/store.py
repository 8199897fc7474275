"""The trace on disk: appended to while it grows, one safetensors file and one JSON file when it is finished.

While a trial runs, every node is appended to `trace.journal` as one frame: a header with length and checksum, then a
small safetensors document whose metadata holds the node's JSON. A frame is one write: after a SIGKILL at any moment
the journal holds every node that was added, and at most one torn frame behind them, which reading leaves out and
resuming cuts off. What a turn costs is what it adds. `finish` rewrites the whole once as `trace.safetensors` (arrays)
and `trace.json` (everything else), each written whole or not at all, the JSON last; then the journal goes. `read_trace`
reads either state. Used by policies, the model proxy, trainers and `envkit tokens`.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from envkit.messages import AssistantMessage, Message, ToolSpec
from envkit.regular_file import read_regular
from envkit.tokens.trace import Edge, IntArray, Node, Sampling, Trace, TraceError

__all__ = ["TRACE_JOURNAL", "TRACE_JSON", "TRACE_TENSORS", "TraceWriter", "open_trace", "read_trace"]

TRACE_JOURNAL = "trace.journal"
TRACE_JSON = "trace.json"
TRACE_TENSORS = "trace.safetensors"

_VERSION = 1
_FRAME = struct.Struct("<4sII")  # magic, length of the document, its CRC-32
_MAGIC = b"ekT1"
#: Bytes of a file of a trace that are read; a hundred million tokens have less.
_MOST_BYTES = 1 << 30

_MESSAGE: TypeAdapter[Message | AssistantMessage] = TypeAdapter(Message | AssistantMessage)
_TOOLS: TypeAdapter[tuple[ToolSpec, ...]] = TypeAdapter(tuple[ToolSpec, ...])


class TraceWriter:
    """Appends a trace's nodes to `folder`; the sink of one `Trace`.

    Opening a folder with an unfinished journal goes on behind its last whole frame; `open_trace` gives the trace that
    belongs to it.

    Args:
        durable: Also survive a power cut: fsync after every node (milliseconds each), not only a killed process.

    Raises:
        TraceError: `folder` already holds a finished trace, or a journal of another version.
        OSError: The disk is full or not writable; the journal is cut back to its last whole frame.
    """

    def __init__(self, folder: Path, meta: Mapping[str, Any], *, durable: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / TRACE_JSON).exists():
            raise TraceError(f"{folder} already holds a finished trace; choose another folder")
        self.folder = folder
        self._durable = durable
        path = folder / TRACE_JOURNAL
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._end = 0
        try:
            for _, self._end in _frames(path.read_bytes()):
                pass
            os.ftruncate(self._fd, self._end)
            if not self._end:
                self._write({}, {"version": _VERSION, "meta": dict(meta)})
        except BaseException:
            os.close(self._fd)
            raise

    def append(self, node: Node) -> None:
        """Stores one node; it survives the death of this process from here on."""
        arrays: dict[str, np.ndarray[Any, Any]] = {"ids": node.ids}
        if node.sampling is not None:
            arrays |= {"logprobs": node.sampling.logprobs, "versions": node.sampling.versions}
        self._write(arrays, _node_json(node))

    def _write(self, arrays: Mapping[str, np.ndarray[Any, Any]], document: Mapping[str, Any]) -> None:
        if self._fd < 0:
            raise TraceError(f"the trace in {self.folder} is finished; nothing can be added")
        body = save_arrays(dict(arrays), {"json": json.dumps(document, ensure_ascii=False)})
        frame = _FRAME.pack(_MAGIC, len(body), zlib.crc32(body)) + body
        view = memoryview(frame)
        at = self._end
        try:
            while view:
                done = os.pwrite(self._fd, view, at)
                view, at = view[done:], at + done
            if self._durable:
                os.fsync(self._fd)
        except OSError:
            os.ftruncate(self._fd, self._end)
            raise
        self._end = at

    def finish(self, trace: Trace) -> None:
        """Writes the final pair of files and removes the journal. Idempotent; the writer takes no more nodes."""
        if self._fd < 0:
            return
        nodes = list(trace)
        sampled = [n.sampling for n in nodes if n.sampling is not None]
        tensors = save_arrays(
            {
                "ids": _joined([n.ids for n in nodes], np.int32),
                "logprobs": _joined([s.logprobs for s in sampled], np.float32),
                "versions": _joined([s.versions for s in sampled], np.int32),
            }
        )
        document = {
            "version": _VERSION,
            "meta": trace.meta,
            "tensors": {"file": TRACE_TENSORS, "bytes": len(tensors), "crc32": zlib.crc32(tensors)},
            "nodes": [_node_json(n) | {"tokens": len(n.ids)} for n in nodes],
        }
        _replace(self.folder / TRACE_TENSORS, tensors)
        _replace(self.folder / TRACE_JSON, json.dumps(document, ensure_ascii=False, indent=1).encode())
        (self.folder / TRACE_JOURNAL).unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Stops writing and leaves the journal as it is."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def open_trace(folder: Path, meta: Mapping[str, Any], *, durable: bool = False) -> tuple[Trace, TraceWriter]:
    """A new trace that is stored as it grows, or an unfinished one taken up again (then its own `meta` stays).

    Raises:
        TraceError: As `TraceWriter` and `read_trace`.
    """
    writer = TraceWriter(folder, meta, durable=durable)
    try:
        before = read_trace(folder)
        return Trace.of(before, before.meta, sink=writer), writer
    except BaseException:
        writer.close()
        raise


def read_trace(folder: Path) -> Trace:
    """Reads a finished trace, or as much of an unfinished one as was stored.

    Raises:
        TraceError: There is none, it contradicts itself (a damaged file, an unknown version), or can't be read.
    """
    final = folder / TRACE_JSON
    try:
        if os.path.lexists(final):
            return _read_final(folder, json.loads(read_regular(final, _MOST_BYTES)))
        return _read_journal(folder)
    except OSError as error:
        raise TraceError(f"the trace in {folder} can't be read: {error}") from error
    except _DAMAGED as error:
        raise TraceError(
            f"the trace in {folder} can't be read, it is damaged: {type(error).__name__}: {error}"
        ) from error


#: What reading bytes raises that are not what they should be.
_DAMAGED = (
    ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError, struct.error,
    SafetensorError,
)  # fmt: skip


def _read_journal(folder: Path) -> Trace:
    journal = folder / TRACE_JOURNAL
    if not os.path.lexists(journal):
        raise TraceError(f"no trace in {folder}: expected {TRACE_JSON} or {TRACE_JOURNAL}")
    meta: dict[str, Any] | None = None
    nodes: list[Node] = []
    for document, _ in _frames(read_regular(journal, _MOST_BYTES)):
        if meta is None:
            record = _document(document)
            _check_version(record, journal)
            meta = record["meta"]
        else:
            arrays = load_arrays(document)
            nodes.append(_node(_document(document), arrays["ids"], arrays.get("logprobs"), arrays.get("versions")))
    if meta is None:
        raise TraceError(f"{journal} holds no whole frame; the process died before the trace began")
    return Trace.of(nodes, meta)


def _read_final(folder: Path, record: dict[str, Any]) -> Trace:
    _check_version(record, folder / TRACE_JSON)
    size = record["tensors"]["bytes"]
    raw = read_regular(folder / TRACE_TENSORS, min(int(size), _MOST_BYTES))
    if len(raw) != size or zlib.crc32(raw) != record["tensors"]["crc32"]:
        raise TraceError(f"{folder / TRACE_TENSORS} does not belong to {TRACE_JSON} beside it, or is damaged")
    arrays = load_arrays(raw)
    nodes: list[Node] = []
    at = at_sampled = 0
    for entry in record["nodes"]:
        n = entry.pop("tokens")
        ids = arrays["ids"][at : at + n]
        at += n
        if entry.get("sampling") is None:
            nodes.append(_node(entry, ids, None, None))
            continue
        span = slice(at_sampled, at_sampled + n)
        at_sampled += n
        nodes.append(_node(entry, ids, arrays["logprobs"][span], arrays["versions"][span]))
    if at != len(arrays["ids"]) or at_sampled != len(arrays["logprobs"]):
        raise TraceError(f"{folder}: the arrays hold {len(arrays['ids'])} tokens, the nodes account for {at}")
    return Trace.of(nodes, record["meta"])


def _frames(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Every whole frame's document and the position behind it; stops before a torn tail."""
    at = 0
    while at + _FRAME.size <= len(data):
        magic, length, crc = _FRAME.unpack_from(data, at)
        body = data[at + _FRAME.size : at + _FRAME.size + length]
        if magic != _MAGIC or len(body) != length or zlib.crc32(body) != crc:
            return
        at += _FRAME.size + length
        yield body, at


def _document(body: bytes) -> dict[str, Any]:
    """The JSON that a frame's safetensors metadata carries."""
    (length,) = struct.unpack_from("<Q", body)
    header = json.loads(body[8 : 8 + length])
    out: dict[str, Any] = json.loads(header["__metadata__"]["json"])
    return out


def _check_version(record: Mapping[str, Any], path: Path) -> None:
    if record.get("version") != _VERSION:
        raise TraceError(f"{path}: expected trace version {_VERSION}, found {record.get('version')!r}; update envkit")


def _node_json(node: Node) -> dict[str, Any]:
    out: dict[str, Any] = {
        "index": node.index,
        "parent": node.parent,
        "thread": node.thread,
        "edge": node.edge.value,
        "origin": node.origin,
        "start": node.start,
        "messages": [
            {"kind": "assistant" if isinstance(m, AssistantMessage) else "message", **m.model_dump(mode="json")}
            for m in node.messages
        ],
    }
    if node.ends:
        out["ends"] = list(node.ends)
    if node.tools is not None:
        out["tools"] = _TOOLS.dump_python(node.tools, mode="json")
    if node.note:
        out["note"] = node.note
    if node.sampling is not None:
        s = node.sampling
        out["sampling"] = {
            "finish": s.finish,
            "params": dict(s.params),
            "request_id": s.request_id,
            "attempts": s.attempts,
        }
    return out


def _node(entry: dict[str, Any], ids: IntArray, logprobs: Any, versions: Any) -> Node:
    sampling = None
    if entry.get("sampling") is not None:
        sampling = Sampling(logprobs=logprobs, versions=versions, **entry["sampling"])
    messages: list[Message | AssistantMessage] = []
    for raw in entry["messages"]:
        kind = raw.pop("kind")
        messages.append((AssistantMessage if kind == "assistant" else Message).model_validate(raw))
    return Node(
        index=entry["index"],
        parent=entry["parent"],
        thread=entry["thread"],
        edge=Edge(entry["edge"]),
        origin=entry["origin"],
        start=entry["start"],
        ids=ids,
        messages=tuple(messages),
        ends=tuple(entry.get("ends", ())),
        tools=_TOOLS.validate_python(entry["tools"]) if entry.get("tools") is not None else None,
        sampling=sampling,
        note=entry.get("note"),
    )


def _joined(chunks: list[Any], dtype: Any) -> np.ndarray[Any, Any]:
    return np.concatenate(chunks) if chunks else np.empty(0, dtype)


def _replace(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
