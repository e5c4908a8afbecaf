"""Tell tensors and their memory apart without keeping them alive."""

from __future__ import annotations

from weakref import ref

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef


class Identities:
    """Numbers for tensors and for their memory, which stay unique when memory is freed and used again.

    >>> import torch
    >>> known, first = Identities(), torch.zeros(2)
    >>> known.key(first), known.key(torch.zeros(2)), known.key(first)
    (0, 1, 0)
    """

    def __init__(self) -> None:
        self._tensors: dict[int, tuple[int, Tensor | ref[Tensor]]] = {}
        self._storages: dict[int, StorageWeakRef] = {}
        self._count = 0

    def knows(self, tensor: Tensor) -> bool:
        """Whether the tensor has a number."""
        return id(tensor) in self._tensors

    def key(self, tensor: Tensor) -> int:
        """Return the number of a tensor, which is kept alive until it is released: ids are used again."""
        if id(tensor) not in self._tensors:
            self._tensors[id(tensor)] = (self._count, tensor)
            self._count += 1
        return self._tensors[id(tensor)][0]

    def release(self, tensor: Tensor) -> int:
        """Let the tensor be freed once nothing else uses it; return its number."""
        key, number = self.key(tensor), id(tensor)

        def forget(_: ref[Tensor]) -> None:  # a new tensor may get the same id
            self._tensors.pop(number, None)

        self._tensors[number] = (key, ref(tensor, forget))
        return key

    def storage(self, tensor: Tensor) -> int:
        """Return a number for the memory of a tensor."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address not in self._storages:  # the address is not used again while there is a weak reference
            self._storages[address] = StorageWeakRef(storage)
        return address
