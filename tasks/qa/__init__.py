"""Question packs: any JSONL or parquet of questions and answers as tasks, `envkit eval qa:FILE`. See docs/qa.md."""

from envkit.tasks.qa.pack import QuestionPack

__all__ = ["QuestionPack"]
