"""Tell the format of a file by its content. File names are often wrong about it."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Literal

from graph_metanetworks.errors import CheckpointError

Format = Literal["safetensors", "torch", "gguf"]
SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".th", ".ckpt", ".gguf", ".pth.tar", ".pt.tar")

FOREIGN = {  # first bytes of files that people take for checkpoints
    b"version https://git-lfs": "a pointer of Git LFS, not the file itself: fetch it with `git lfs pull`",
    b"\x89HDF": "an HDF5 file, as Keras writes: export its weights to safetensors",
    b"\x93NUMPY": "an array of NumPy: save the weights as a state dict, with torch.save or safetensors",
    b"\x1f\x8b": "compressed by gzip: unpack it first",
    b"7z\xbc\xaf": "compressed by 7-Zip: unpack it first",
}


def format_of(path: Path) -> Format:
    """Return the format of a checkpoint, or say what the file is instead."""
    try:
        with open(path, "rb") as file:
            head = file.read(512)
    except OSError as error:
        raise CheckpointError(f"'{path}' cannot be read: {error.strerror}.") from error
    for start, what in FOREIGN.items():
        if head.startswith(start):
            raise no_checkpoint(path, f"it is {what}")
    if not head:
        raise no_checkpoint(path, "it is empty")
    if head.startswith(b"GGUF"):
        return "gguf"
    if head.startswith(b"PK\x03\x04"):
        return _format_of_archive(path)
    if head[257:262] == b"ustar":
        raise no_checkpoint(path, "it is a tar archive: unpack it, or save the weights with a newer PyTorch")
    if head[8:9] == b"{":
        return _checked_header(path, head)
    if head[0] == 0x80 and head[1] <= 5:  # the protocol of a pickle
        return "torch"
    raise no_checkpoint(path, "it is a text file" if _is_text(head) else "its format is unknown")


def is_checkpoint_name(name: str) -> bool:
    """Return whether a file is called as checkpoints are.

    >>> is_checkpoint_name("best.pth.tar"), is_checkpoint_name("results.csv")
    (True, False)
    """
    return name.lower().endswith(SUFFIXES)


def no_checkpoint(path: Path, what: str) -> CheckpointError:
    return CheckpointError(
        f"'{path}' is no checkpoint: {what}. Checkpoints are files of safetensors, PyTorch, Lightning or "
        "GGUF, or folders of Hugging Face."
    )


def damaged(path: Path, error: object) -> CheckpointError:
    reason = str(error).strip().partition("\n")[0].rstrip(".")
    return CheckpointError(f"'{path}' is damaged ({reason}): copy or save it again.")


def _format_of_archive(path: Path) -> Format:
    try:
        names = zipfile.ZipFile(path).namelist()
    except (zipfile.BadZipFile, OSError) as error:
        raise damaged(path, "the archive is incomplete") from error
    folders = {name.split("/")[1] for name in names if name.count("/") > 1}
    if "code" in folders:
        raise no_checkpoint(
            path,
            "it is a TorchScript program. Load it where you trust it, torch.jit.load(file), and save the "
            "weights of what you get: torch.save(loaded.state_dict(), ...)",
        )
    if any(name == "data.pkl" or name.endswith("/data.pkl") for name in names):
        return "torch"
    raise no_checkpoint(path, f"it is a zip archive of {', '.join(names[:3])}")


def _checked_header(path: Path, head: bytes) -> Format:
    size, end = path.stat().st_size, 8 + int.from_bytes(head[:8], "little")
    if end > size:
        raise damaged(path, f"its header should have {end:,} bytes, and the file has {size:,}")
    return "safetensors"


def _is_text(head: bytes) -> bool:
    try:
        return head.decode(errors="strict").isprintable() or b"\n" in head
    except UnicodeDecodeError:
        return False
