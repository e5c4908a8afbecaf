"""Image data sets by name, read from local files. Only `huggingface:NAME` may download."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from graph_metanetworks.zoo.data.cifar import cifar10
from graph_metanetworks.zoo.data.digits import digits
from graph_metanetworks.zoo.data.folder import folder
from graph_metanetworks.zoo.data.huggingface import huggingface
from graph_metanetworks.zoo.data.idx import fashion_mnist, mnist
from graph_metanetworks.zoo.data.images import DataError, ImageData

__all__ = ["NAMES", "DataError", "ImageData", "load"]

FROM_FILES: dict[str, Callable[[Path | None], ImageData]] = {
    "cifar10": cifar10,
    "fashion-mnist": fashion_mnist,
    "mnist": mnist,
}
NAMES = ("digits", *FROM_FILES, "folder:PATH", "huggingface:NAME")


def load(name: str, data_dir: str | Path | None = None) -> ImageData:
    """Load a data set by name: digits, fashion-mnist, mnist, cifar10, folder:PATH or huggingface:NAME.

    Options of a Hugging Face data set follow its name, as in `huggingface:NAME,label=fine_label,size=32`.

    Files are searched in `data_dir` if it is given. Otherwise they are searched in the folder named by the
    environment variable `GMN_DATA`, in `data/`, and where operating systems install them.

    >>> load("digits").image_shape
    (1, 8, 8)
    """
    if data_dir is not None and not Path(data_dir).is_dir():
        raise DataError(f"there is no folder {data_dir} to search for {name}")
    if name == "digits":
        return digits()
    if name in FROM_FILES:
        return FROM_FILES[name](None if data_dir is None else Path(data_dir))
    kind, _, rest = name.partition(":")
    if kind == "folder" and rest:
        return folder(Path(rest))
    if kind == "huggingface" and rest:
        return huggingface(rest)
    raise DataError(f"there is no data set {name!r}; choose one of {', '.join(NAMES)}")
