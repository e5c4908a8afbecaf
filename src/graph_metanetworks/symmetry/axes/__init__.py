"""Axes: how the network's symmetry group acts on each dimension of each tensor.

A dimension is a row-major product of axes (`Dim`, a list; size-1 axes are dropped). An axis is a union-find
variable: the group permutes it freely until an operation demands less. It may be refined once, to::

    Product     heads x head dimension;
    Concat      packed q, k, v; DenseNet: no element leaves its segment;
    Cases       a separate action for each segment of another axis (the heads of q, k and v).

A *pinned* axis is not permuted at all. An axis may *depend* on others: the dimensions of each head are
permuted independently of the other heads'. Dependence is assumed whenever a dimension is split, and
given up by `settle` where some tensor contradicts it. A *generic* axis belongs to a tensor that is
constant along it (zeros, an expanded view): every use gets a fresh axis of its own, so that constants
tie nothing together.

Every function here only shrinks the group. A demand that was met once stays met.
"""

from graph_metanetworks.symmetry.axes.axis import (
    Axis,
    Cases,
    Concat,
    Dim,
    Product,
    boundaries,
    find,
    fixed,
    free,
    instantiate,
    is_pinned,
    leaves,
    make_specific,
    ordered_parents,
    parents,
    parts_of,
    pin,
    referred,
    size,
    variables,
)
from graph_metanetworks.symmetry.axes.cutting import (
    Restriction,
    concatenate,
    cut,
    narrow,
    part_of,
    refine_cases,
    reshape,
    restrict,
    split_cases,
    split_concat,
    split_product,
)
from graph_metanetworks.symmetry.axes.regions import regions
from graph_metanetworks.symmetry.axes.unification import collapse, unify, unify_dims

__all__ = [
    "Axis",
    "Cases",
    "Concat",
    "Dim",
    "Product",
    "Restriction",
    "boundaries",
    "collapse",
    "concatenate",
    "cut",
    "find",
    "fixed",
    "free",
    "instantiate",
    "is_pinned",
    "leaves",
    "make_specific",
    "narrow",
    "ordered_parents",
    "parents",
    "part_of",
    "parts_of",
    "pin",
    "referred",
    "refine_cases",
    "regions",
    "reshape",
    "restrict",
    "size",
    "split_cases",
    "split_concat",
    "split_product",
    "unify",
    "unify_dims",
    "variables",
]
