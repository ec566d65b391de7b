"""A stand-in for torch, as far as compat/python/assay_taps.py needs it: tensors that are lists of
numbers, and modules with hooks. It computes nothing of worth; torch itself is too heavy for CI."""

import ctypes

from . import nn  # noqa: F401  torch.nn is part of what is stood in for

__version__ = "0.0 (stand-in)"


class dtype:
    def __init__(self, name, kind, size, floats):
        self.name, self.kind, self.size, self.floats = name, kind, size, floats

    def __repr__(self):
        return "torch." + self.name


float32 = dtype("float32", ctypes.c_float, 4, True)
int64 = dtype("int64", ctypes.c_int64, 8, False)
int32 = dtype("int32", ctypes.c_int32, 4, False)
complex64 = dtype("complex64", ctypes.c_int64, 8, False)


def _count(shape):
    n = 1
    for size in shape:
        n *= size
    return n


class Tensor:
    def __init__(self, values, shape, kind=float32):
        assert len(values) == _count(shape)
        self.values, self.shape, self.dtype = list(values), tuple(shape), kind
        self.memory = None

    def detach(self):
        return self

    def contiguous(self):
        return self

    def cpu(self):
        return self

    def is_floating_point(self):
        return self.dtype.floats

    def numel(self):
        return len(self.values)

    def element_size(self):
        return self.dtype.size

    def data_ptr(self):
        self.memory = (self.dtype.kind * max(len(self.values), 1))(*self.values)
        return ctypes.addressof(self.memory)

    def to(self, kind):
        return Tensor(self.values, self.shape, kind)

    def reshape(self, *shape):
        if shape == (-1,):
            shape = (len(self.values),)
        return Tensor(self.values, shape, self.dtype)

    def tolist(self):
        return self.values

    def __add__(self, other):
        return Tensor([a + b for a, b in zip(self.values, other.values)], self.shape, self.dtype)

    def _lines(self):
        n = self.shape[-1]
        return [self.values[i:i + n] for i in range(0, len(self.values), n)]

    def sort(self, dim):
        assert dim == -1
        orders = [sorted(range(len(line)), key=line.__getitem__) for line in self._lines()]
        values = [line[i] for line, order in zip(self._lines(), orders) for i in order]
        return (Tensor(values, self.shape, self.dtype),
                Tensor([i for order in orders for i in order], self.shape, int64))

    def gather(self, dim, index):
        assert dim == -1
        pairs = zip(self._lines(), index._lines())
        return Tensor([line[i] for line, at in pairs for i in at], index.shape, self.dtype)
