"""Training samples as one parquet file, written in row groups of bounded size, readable by everybody.

Columns: `trial, task, group` (text), `sample, row, rows` (which trial of the group, which row of the trial),
`ids` (list of int32), `mask` (list of bool: sampled here, trains), `logprobs` (list of float32, at the sampling
temperature, 0.0 outside the mask), `versions` (list of int32, -1 outside), `reward` (float64, null without a verdict),
`valid` (has a reward: may train and votes in its group's baseline), `advantage` (reward minus the mean of the group's
valid trials), `status`, `stop`, `failure`, `finish`, `thread`, `harness`, `model` (text), `temperature` (float64).
The file's metadata holds the export's counts under `envkit`. Needs pyarrow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from envkit.export.tokens import TokenRow
from envkit.failure import UserError

__all__ = ["ParquetRows"]

#: A row group is written when it holds so many tokens; one trial of 160k tokens is well below.
_GROUP_TOKENS = 4_000_000
_GROUP_ROWS = 4_096


class ParquetRows:
    """A parquet file that grows by rows. `close` finishes it.

    Raises:
        UserError: pyarrow is not installed.
    """

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise UserError("parquet needs pyarrow; install it with: pip install 'envkit-rl[qa]'") from error
        self._pa = pa
        text, lists = pa.string(), pa.list_
        self._schema = pa.schema(
            [
                ("trial", text), ("task", text), ("group", text), ("sample", pa.int32()), ("row", pa.int32()),
                ("rows", pa.int32()), ("ids", lists(pa.int32())), ("mask", lists(pa.bool_())),
                ("logprobs", lists(pa.float32())), ("versions", lists(pa.int32())), ("reward", pa.float64()),
                ("valid", pa.bool_()), ("advantage", pa.float64()), ("status", text), ("stop", text),
                ("failure", text), ("finish", text), ("thread", text), ("harness", text), ("model", text),
                ("temperature", pa.float64()),
            ]
        )  # fmt: skip
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._rows: list[TokenRow] = []
        self._tokens = 0

    def add(self, row: TokenRow) -> None:
        self._rows.append(row)
        self._tokens += len(row.sample.ids)
        if self._tokens >= _GROUP_TOKENS or len(self._rows) >= _GROUP_ROWS:
            self._flush()

    def close(self, about: Mapping[str, Any] | None = None) -> None:
        """Writes what is left, and `about` into the file's metadata."""
        self._flush()
        if about is not None and hasattr(self._writer, "add_key_value_metadata"):  # pyarrow 16
            self._writer.add_key_value_metadata({"envkit": json.dumps(dict(about))})
        self._writer.close()

    def _flush(self) -> None:
        pa, rows = self._pa, self._rows
        if not rows:
            return
        offsets = np.concatenate([[0], np.cumsum([len(r.sample.ids) for r in rows])]).astype(np.int32)

        def lists(name: str) -> Any:
            values = np.concatenate([getattr(r.sample, name) for r in rows])
            return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))

        columns: dict[str, Any] = {name: lists(name) for name in ("ids", "mask", "logprobs", "versions")}
        plain = [
            {
                "trial": r.trial.id, "task": r.trial.task, "group": r.trial.group, "sample": r.trial.sample,
                "row": r.number, "rows": r.rows, "reward": r.trial.reward, "valid": r.trial.reward is not None,
                "advantage": r.advantage, "status": r.trial.status.value, "stop": r.trial.stop,
                "failure": r.trial.failure, "finish": r.sample.finish, "thread": r.sample.thread,
                "harness": r.trial.harness, "model": r.trial.model, "temperature": r.temperature,
            }
            for r in rows
        ]  # fmt: skip
        for field in self._schema:
            if field.name not in columns:
                columns[field.name] = pa.array([p[field.name] for p in plain], field.type)
        table = pa.table([columns[name] for name in self._schema.names], schema=self._schema)
        self._writer.write_table(table)
        self._rows, self._tokens = [], 0
