"""Where the data comes from: a folder, or the Hugging Face hub with the user's own token. Nothing is fetched before it
is asked for.

A folder is named by `$ENVKIT_APEX_DATA` (or given to the pack). The hub is used once `envkit apex fetch` has chosen a
dataset and pinned its commit in `apex/source.json` of envkit's home; files lie in the hub's own cache.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from envkit.failure import FailureKind, UserError
from envkit.home import envkit_home

__all__ = [
    "DATA_VARIABLE", "REPOSITORY", "TASKS", "WORLDS", "FolderSource", "Hub", "HubSource", "Source", "find_source",
    "no_data", "pin", "pinned",
]  # fmt: skip

DATA_VARIABLE = "ENVKIT_APEX_DATA"
REPOSITORY = "mercor/apex-agents"
TASKS, WORLDS = "tasks_and_rubrics.json", "world_descriptions.json"


class Source(Protocol):
    """Files of the published layout by their names in it."""

    #: For people: what it is.
    name: str

    def file(self, name: str) -> Path:
        """A file on this machine, fetched if need be. Raises `UserError` where there is none."""
        ...

    def files(self, folder: str) -> dict[str, Path]:
        """All files below a folder by their paths relative to it, fetched if need be."""
        ...


class FolderSource:
    """A copy of the dataset in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)

    def file(self, name: str) -> Path:
        path = self.path / name
        if not path.is_file():
            raise UserError(f"{self.path} has no {name}; a copy of the APEX-Agents dataset has one there")
        return path

    def files(self, folder: str) -> dict[str, Path]:
        root = self.path / folder
        out: dict[str, Path] = {}
        for place, folders, names in os.walk(root, followlinks=True):
            folders.sort()
            for name in sorted(names):
                path = Path(place, name)
                if path.is_file():
                    out[path.relative_to(root).as_posix()] = path
        return out


class Hub(Protocol):
    """What is needed of the hub: one file, and the names of all files."""

    def download(self, repository: str, revision: str, name: str) -> Path: ...

    def listing(self, repository: str, revision: str) -> Sequence[str]: ...

    def commit(self, repository: str, revision: str) -> str: ...


class HuggingFace:
    """The hub through `huggingface_hub`, with the token of `HF_TOKEN` or of `hf auth login`. What goes wrong is a
    `UserError` that says what to do."""

    def download(self, repository: str, revision: str, name: str) -> Path:
        hub = _library()
        return Path(
            _asked(lambda: hub.hf_hub_download(repository, name, repo_type="dataset", revision=revision), repository)
        )

    def listing(self, repository: str, revision: str) -> Sequence[str]:
        hub = _library()
        found: list[str] = _asked(
            lambda: hub.list_repo_files(repository, repo_type="dataset", revision=revision), repository
        )
        return found

    def commit(self, repository: str, revision: str) -> str:
        hub = _library()
        return str(_asked(lambda: hub.HfApi().dataset_info(repository, revision=revision).sha, repository))


class HubSource:
    """The dataset on the hub at one commit. Only what is used is downloaded."""

    def __init__(self, repository: str, revision: str, hub: Hub | None = None) -> None:
        self.repository, self.revision = repository, revision
        self.name = f"{repository}@{revision[:12]} on the Hugging Face hub"
        self._hub: Hub = hub or HuggingFace()
        self._names: Sequence[str] | None = None

    def file(self, name: str) -> Path:
        return self._hub.download(self.repository, self.revision, name)

    def files(self, folder: str) -> dict[str, Path]:
        if self._names is None:
            self._names = self._hub.listing(self.repository, self.revision)
        prefix = folder.rstrip("/") + "/"
        wanted = sorted(name for name in self._names if name.startswith(prefix))
        return {name.removeprefix(prefix): self.file(name) for name in wanted}


def _library() -> Any:
    try:
        return import_module("huggingface_hub")  # an extra, and large: only when it is used
    except ImportError as error:
        raise UserError(
            "fetching APEX-Agents data needs the package huggingface_hub: pip install 'envkit-rl[apex]'. Without it, "
            f"copy the dataset into a folder by other means and name it in {DATA_VARIABLE}",
            kind=FailureKind.CAPABILITY,
        ) from error


def _asked(call: Callable[[], Any], repository: str) -> Any:
    """A call of the hub's library with its errors in our words. A missing login and a gate look alike from outside."""
    errors = import_module("huggingface_hub.errors")
    page = f"https://huggingface.co/datasets/{repository}"
    try:
        return call()
    except (errors.GatedRepoError, errors.RepositoryNotFoundError) as error:
        raise UserError(
            f"the dataset {repository} is gated, or there is none: accept its terms at {page} and log in with a token "
            f"of that account (`hf auth login`, or HF_TOKEN). The hub said: {_short(error)}"
        ) from error
    except (errors.EntryNotFoundError, errors.RevisionNotFoundError) as error:
        raise UserError(f"{repository} has no such file or revision: {_short(error)}") from error
    except (errors.HfHubHTTPError, OSError, *_network_errors()) as error:
        raise UserError(
            f"the Hugging Face hub can't be reached, or refuses {repository}: {_short(error)}. Try again later, or "
            f"copy the dataset into a folder and name it in {DATA_VARIABLE}"
        ) from error


def _network_errors() -> tuple[type[BaseException], ...]:
    """The base errors of the HTTP libraries that versions of the hub's library use, of those that are loaded."""
    known = (("httpx2", "HTTPError"), ("httpx", "HTTPError"), ("requests", "RequestException"))
    return tuple(getattr(sys.modules[module], name) for module, name in known if module in sys.modules)


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


# --- which one ---


def _pin_file() -> Path:
    return envkit_home() / "apex" / "source.json"


def pin(repository: str, revision: str) -> Path:
    """Remembers which commit of which dataset is used. Returns the file that says so."""
    target = _pin_file()
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    draft.write_text(json.dumps({"repository": repository, "revision": revision}, indent=2) + "\n", encoding="utf-8")
    os.replace(draft, target)
    return target


def pinned() -> tuple[str, str] | None:
    """The dataset and commit that `envkit apex fetch` chose. Raises `UserError` for a broken file."""
    target = _pin_file()
    try:
        found = json.loads(target.read_text(encoding="utf-8"))
        return str(found["repository"]), str(found["revision"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{target} is broken ({error}); run `envkit apex fetch` again") from error


def find_source(data: str | Path | None, hub: Hub | None = None) -> Source | None:
    """The data: the folder given, else that of `$ENVKIT_APEX_DATA`, else the pinned dataset of the hub, else None.

    Raises:
        UserError: The folder that is named does not exist.
    """
    named = str(data) if data is not None else os.environ.get(DATA_VARIABLE, "").strip()
    if named:
        path = Path(os.path.abspath(os.path.expanduser(named)))
        if not path.is_dir():
            origin = "the data given to the apex pack" if data is not None else DATA_VARIABLE
            raise UserError(f"{origin} names {path}, which is no folder; expected a copy of the APEX-Agents dataset")
        return FolderSource(path)
    chosen = pinned()
    return HubSource(*chosen, hub) if chosen is not None else None


def no_data() -> str:
    """What to do where there is no data."""
    return (
        f"there is no APEX-Agents data on this machine. Run `envkit apex fetch` (it needs access to the gated dataset "
        f"{REPOSITORY} on Hugging Face and your own token), or name a folder with a copy of it in {DATA_VARIABLE}"
    )
