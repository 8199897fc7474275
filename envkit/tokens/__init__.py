"""Tokens in, tokens out: the record of what a model was shown and what it sampled, exact to the id.

    trace = read_trace(folder)
    for sample in export(trace).samples:
        sample.ids, sample.mask, sample.logprobs, sample.versions

`trace` is the graph, `store` its two forms on disk, `export` the way to training samples, `render` and its neighbours
the way from messages to ids and back, `conversation` what a policy drives, `audit` the check of a finished trace.
"""

from __future__ import annotations

from envkit.tokens.export import Export, Sample, drop_finishes, export
from envkit.tokens.prompt import PromptIds
from envkit.tokens.store import TraceWriter, open_trace, read_trace
from envkit.tokens.trace import Edge, Node, Sampling, Trace, TraceError

__all__ = [
    "Edge",
    "Export",
    "Node",
    "PromptIds",
    "Sample",
    "Sampling",
    "Trace",
    "TraceError",
    "TraceWriter",
    "drop_finishes",
    "export",
    "open_trace",
    "read_trace",
]
