"""Factory functions: most make tensors that are constant along every dimension."""

from __future__ import annotations

from graph_metanetworks.symmetry.axes import fixed, free
from graph_metanetworks.trace.interpret.interpreter import Call
from graph_metanetworks.trace.interpret.registry import rule
from graph_metanetworks.trace.interpret.value import Role, Value


@rule(
    "zeros",
    "ones",
    "full",
    "empty",
    "empty_strided",
    "scalar_tensor",
    "zeros_like",
    "ones_like",
    "full_like",
    "empty_like",
    "new_zeros",
    "new_ones",
    "new_full",
    "new_empty",
    "new_empty_strided",
    "fill",
    "zero",
)
def uniform(call: Call) -> Value:
    return Value(Role.CONSTANT, [free(n, call.name, generic=True) for n in call.out.shape])


@rule(
    "arange",
    "linspace",
    "logspace",
    "eye",
    "tril_indices",
    "triu_indices",
    "randn",
    "rand",
    "randint",
    "randperm",
)
def varied(call: Call) -> Value:
    return Value(Role.CONSTANT, [fixed(n, call.name) for n in call.out.shape])


@rule(
    "_local_scalar_dense",
    "_assert_async",
    "_assert_tensor_metadata",
    "equal",
    "is_same_size",
)
def no_tensor(call: Call) -> list[Value]:
    return []
