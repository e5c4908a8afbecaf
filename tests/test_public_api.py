"""The names that users rely on. A change here is a change for them: say so in the changelog."""

import graph_metanetworks as gmn

NAMES = [
    "Alignment",
    "Automorphism",
    "Batch",
    "CheckpointError",
    "ComputationGraph",
    "Declaration",
    "EdgeBlock",
    "GraphMetanetwork",
    "MissingExtra",
    "NodeGroup",
    "ParameterGraph",
    "PruneError",
    "PrunePlan",
    "ReplayError",
    "Rescaling",
    "Scaling",
    "StateDictMismatch",
    "StorageError",
    "Symmetry",
    "TaskError",
    "TooLarge",
    "TraceError",
    "Tracer",
    "UnsupportedNetwork",
    "UnsupportedOperation",
    "UnusedParameters",
    "Zoo",
    "ZooError",
    "align",
    "canonicalize",
    "collate",
    "computation_graph",
    "declare",
    "interpolate",
    "load",
    "load_pruned",
    "nn",
    "prune",
    "prune_plan",
    "read_checkpoint",
    "remove_rule",
    "rule",
    "save_pruned",
    "testing",
    "trace",
    "train",
    "zoo",
]

METANETWORKS = [
    "AttentionPooling",
    "BundleEncoder",
    "BundlePassing",
    "Canonical",
    "EachEdge",
    "EachNode",
    "EdgeEncoder",
    "EdgeUpdate",
    "Edit",
    "GlobalUpdate",
    "GraphMetanetwork",
    "Grit",
    "GritBlock",
    "Links",
    "MatrixProduct",
    "MeanByGroup",
    "MeanByKind",
    "MeanByTensor",
    "MeanEdges",
    "MeanNodes",
    "MessagePassing",
    "NodeEncoder",
    "NodeUpdate",
    "PooledEdges",
    "ProbeSignals",
    "Probes",
    "PygBlock",
    "RandomWalkEncoder",
    "Readout",
    "State",
    "UnaryEncoder",
    "UnknownKind",
    "Vocabulary",
    "WeightMatrices",
]

ORACLES = [
    "assert_all",
    "assert_automorphism",
    "assert_covers",
    "assert_equivariant",
    "assert_function_kept",
    "assert_operations_equivariant",
    "assert_round_trip",
    "assert_runs",
]

GRAPH = [
    "activations",
    "activity",
    "block_ends",
    "blocks",
    "checked",
    "edge_activation",
    "edge_depth",
    "edge_index",
    "edge_kind",
    "edge_kinds",
    "edge_position",
    "edge_slices",
    "edge_values",
    "frequencies",
    "groups",
    "ignored",
    "name",
    "node_activation",
    "node_depth",
    "node_head",
    "node_index",
    "node_kind",
    "node_kinds",
    "notes",
    "num_edges",
    "num_nodes",
    "num_parameters",
    "parameters",
    "plot",
    "recording",
    "run",
    "scaling",
    "shown_nodes",
    "state_dict",
    "summary",
    "symmetry",
    "to_pyg",
    "unseen",
    "with_module",
]


def test_the_exported_names() -> None:
    assert sorted(gmn.__all__) == NAMES
    assert all(hasattr(gmn, name) for name in NAMES)


def test_the_names_of_metanetworks() -> None:
    assert sorted(gmn.nn.__all__) == METANETWORKS
    assert all(getattr(gmn.nn, name).__doc__ for name in METANETWORKS)


def test_the_oracles() -> None:
    public = [name for name in vars(gmn.testing) if name.startswith("assert_")]
    assert sorted(public) == ORACLES


def test_the_fields_of_a_graph() -> None:
    fields = set(gmn.ParameterGraph.__dataclass_fields__) | set(vars(gmn.ParameterGraph))
    assert sorted(name for name in fields if not name.startswith("_")) == GRAPH


def test_errors_are_trace_errors_and_value_errors() -> None:
    errors = (
        gmn.ReplayError,
        gmn.StateDictMismatch,
        gmn.UnsupportedOperation,
        gmn.UnusedParameters,
        gmn.nn.UnknownKind,
    )
    for error in errors:
        assert issubclass(error, gmn.TraceError)
    assert issubclass(gmn.TraceError, ValueError)


def test_everything_public_is_documented() -> None:
    for name in NAMES:
        assert getattr(gmn, name).__doc__, name
    for name in ORACLES:
        assert getattr(gmn.testing, name).__doc__, name
