"""Share folders through the Hugging Face hub: upload them with a card, download them by name."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from graph_metanetworks.errors import StorageError
from graph_metanetworks.extras import optional_imports

Kind = Literal["model", "dataset"]
CARD = "README.md"
LIBRARY = "graph_metanetworks"
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


def is_repository(name: str | Path) -> bool:
    """Return whether a name has the form of a repository of the hub, user/name.

    >>> is_repository("someone/predictor"), is_repository("runs/2024/gmn"), is_repository(Path("someone/x"))
    (True, False, False)
    """
    return isinstance(name, str) and REPOSITORY.fullmatch(name) is not None


def upload(
    name: str,
    stage: Callable[[Path], None],
    *,
    kind: Kind = "model",
    private: bool | None = None,
    token: str | None = None,
    message: str | None = None,
) -> str:
    """Upload files to a repository, which is made if need be, in one commit; return its address.

    Args:
        name: `user/name`.
        stage: writes the files into a folder.
        private: whether a new repository is private; by default as the hub decides for the user.
        token: of the user; by default that of `hf auth login`.
    """
    if not is_repository(name):
        raise StorageError(
            f"'{name}' is no repository of the hub: write user/name, such as someone/predictor."
        )
    with optional_imports():
        import huggingface_hub
    with TemporaryDirectory() as place:
        stage(Path(place))
        api = huggingface_hub.HfApi(token=token, library_name=LIBRARY)
        try:
            url = api.create_repo(name, repo_type=kind, private=private, exist_ok=True)
            api.upload_folder(
                repo_id=name,
                folder_path=place,
                repo_type=kind,
                commit_message=message or f"Upload with {LIBRARY}",
            )
        except Exception as error:  # those of the hub's HTTP client are no OSError
            raise StorageError(
                f"cannot upload to {name} on the Hugging Face hub: {error}. Check the connection, log in "
                "with `hf auth login` or pass token=..., and check that the repository is yours."
            ) from error
    return str(url)


def download(
    name: str,
    *,
    kind: Kind = "model",
    files: Iterable[str] | None = None,
    revision: str | None = None,
    token: str | None = None,
) -> Path:
    """Download a repository, or files of it, into the hub's cache; return the folder."""
    with optional_imports():
        import huggingface_hub
    try:
        return Path(
            huggingface_hub.snapshot_download(
                name,
                repo_type=kind,
                revision=revision,
                token=token,
                allow_patterns=None if files is None else [*files],
            )
        )
    except Exception as error:  # those of the hub's HTTP client are no OSError
        raise StorageError(f"cannot download {name} from the Hugging Face hub: {error}") from error


def copy_files(source: Path, names: Iterable[str], target: Path) -> None:
    """Copy those of some files that exist."""
    for name in names:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


def card(metadata: Mapping[str, Any], *sections: str) -> str:
    """Return the text of a card: metadata for the hub, then sections.

    >>> print(card({"library_name": "x", "tags": ["a", "b"]}, "# Title"))
    ---
    library_name: x
    tags:
    - a
    - b
    ---
    <BLANKLINE>
    # Title
    <BLANKLINE>
    """
    lines = []
    for key, value in metadata.items():
        if isinstance(value, list | tuple):
            lines += [f"{key}:", *(f"- {item}" for item in value)]
        else:
            lines.append(f"{key}: {value}")
    return "\n".join(["---", *lines, "---", "", *("\n\n".join(sections).splitlines()), ""])


def markdown_table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table in Markdown.

    >>> print(markdown_table(("part", "R²"), [("test", 0.93)]))
    | part | R² |
    | --- | --- |
    | test | 0.93 |
    """
    header = [*header]
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
