"""What each torch call does to a value: data, one row a name.

`torch.cat(xs)`, `x.view(...)` and `torch.transpose(x, 0, 1)` all look here. A name that is
missing does something unknown.
Sources: torch's documentation of views and of in-place operations; which calls return fresh memory was measured
(FACTS, "Which copies are really asynchronous", 3 and 7).
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Effect(Enum):
    """What a call does with memory."""

    FACTORY = "makes a new tensor from sizes or host values"
    LIKE = "makes a new tensor shaped like its first argument"
    VIEW = "shares the memory of its first argument"
    DENSIFY = "shares the memory when that is dense already, else makes a fresh copy"
    FRESH = "computes into fresh memory"
    INPLACE = "writes into its first argument and returns it"
    CAST = "changes the dtype: the same tensor when it has that dtype already"
    PIECES = "a sequence of views"
    FRESH_PAIR = "several fresh tensors"
    NUMPY = "an ndarray on the same memory"
    FROM_HOST = "a tensor on the memory of an ndarray"
    DATA = "a new tensor holding host data"
    TRANSFER = "moves, or may move, to a device"
    HOST_READ = "a Python value, read from memory"
    PIN = "page-locked copy, or the same tensor when it is pinned already"
    PRIVATE = "fresh memory that is never page-locked: shared memory, files"
    QUERY = "a host value that costs nothing"
    PARAMETER = "a module parameter on the memory of its first argument"


class Op(Struct, frozen=True):
    """One row."""

    effect: Effect
    shape: str = ""
    """For views: the function in layout.py; for factories: where the sizes come from; for casts: the dtype."""
    index: bool = False
    """Whether the result of index-built inputs is index-built again: the same integers come out on any device."""
    dtype: str = ""
    """The dtype of the result, where the call fixes it."""


def _rows(effect: Effect, names: str, *, shape: str = "", index: bool = False, dtype: str = "") -> dict[str, Op]:
    row = Op(effect, shape, index, dtype)
    return dict.fromkeys(names.split(), row)


FACTORIES: dict[str, Op] = {
    **_rows(Effect.FACTORY, "zeros ones", shape="sizes", index=True),
    **_rows(Effect.FACTORY, "empty rand randn", shape="sizes"),
    **_rows(Effect.FACTORY, "full", shape="first", index=True),
    **_rows(Effect.FACTORY, "arange range", shape="count", index=True),
    **_rows(Effect.FACTORY, "linspace logspace", shape="vector", index=True),
    **_rows(Effect.FACTORY, "eye", shape="square", index=True),
    **_rows(Effect.FACTORY, "tril_indices triu_indices", shape="indices", index=True, dtype="int64"),
    **_rows(Effect.FACTORY, "randperm", shape="vector", dtype="int64"),
    **_rows(Effect.FACTORY, "randint", shape="randint", dtype="int64"),
    **_rows(
        Effect.FACTORY,
        "normal hann_window hamming_window blackman_window bartlett_window kaiser_window",
        shape="unknown",
    ),
    **_rows(Effect.FACTORY, "scalar_tensor", shape="scalar"),
    **_rows(Effect.FACTORY, "empty_strided", shape="strided"),
    **_rows(Effect.LIKE, "zeros_like ones_like full_like", index=True),
    **_rows(Effect.LIKE, "empty_like rand_like randn_like randint_like"),
    **_rows(Effect.DATA, "tensor as_tensor asarray sparse_coo_tensor sparse_csr_tensor"),
    **_rows(Effect.DATA, "FloatTensor", dtype="float32"),
    **_rows(Effect.DATA, "DoubleTensor", dtype="float64"),
    **_rows(Effect.DATA, "HalfTensor", dtype="float16"),
    **_rows(Effect.DATA, "BFloat16Tensor", dtype="bfloat16"),
    **_rows(Effect.DATA, "LongTensor", dtype="int64"),
    **_rows(Effect.DATA, "IntTensor", dtype="int32"),
    **_rows(Effect.DATA, "ShortTensor", dtype="int16"),
    **_rows(Effect.DATA, "CharTensor", dtype="int8"),
    **_rows(Effect.DATA, "ByteTensor", dtype="uint8"),
    **_rows(Effect.DATA, "BoolTensor", dtype="bool"),
    **_rows(Effect.DATA, "Tensor", dtype="float32"),
    **_rows(Effect.FROM_HOST, "from_numpy from_dlpack frombuffer"),
    **_rows(Effect.PRIVATE, "load from_file"),
    **_rows(Effect.QUERY, "is_tensor is_storage numel get_default_dtype"),
}
"""Functions of the module `torch` that start from host values."""

METHODS: dict[str, Op] = {
    # Views
    **_rows(
        Effect.VIEW,
        "detach data requires_grad_ retain_grad alias positive conj_physical_ resolve_conj resolve_neg",
        shape="same",
        index=True,
    ),
    **_rows(Effect.VIEW, "rename refine_names as_subclass set_ resize_ resize_as_ share_ coalesce_", shape="same"),
    **_rows(Effect.VIEW, "view", shape="view", index=True),
    **_rows(Effect.VIEW, "view_as", shape="like-other", index=True),
    **_rows(Effect.VIEW, "_unsafe_view", shape="view", index=True),
    **_rows(Effect.VIEW, "unsqueeze", shape="unsqueezed", index=True),
    **_rows(Effect.VIEW, "squeeze", shape="squeezed", index=True),
    **_rows(Effect.VIEW, "expand", shape="expanded", index=True),
    **_rows(Effect.VIEW, "expand_as broadcast_to", shape="stretched", index=True),
    **_rows(Effect.VIEW, "permute", shape="permuted", index=True),
    **_rows(Effect.VIEW, "transpose swapaxes swapdims", shape="transposed", index=True),
    **_rows(Effect.VIEW, "t T H", shape="reversed", index=True),
    **_rows(Effect.VIEW, "mT mH adjoint", shape="last-two", index=True),
    **_rows(Effect.VIEW, "movedim moveaxis", shape="moved", index=True),
    **_rows(Effect.VIEW, "select", shape="selected", index=True),
    **_rows(Effect.VIEW, "narrow", shape="narrowed", index=True),
    **_rows(Effect.VIEW, "diagonal", shape="diagonal"),
    **_rows(Effect.VIEW, "unfold", shape="unfolded"),
    **_rows(Effect.VIEW, "as_strided", shape="strided"),
    **_rows(Effect.VIEW, "real imag", shape="component"),
    **_rows(Effect.VIEW, "conj", shape="same", index=True),
    **_rows(Effect.VIEW, "unflatten", shape="unflattened", index=True),
    **_rows(Effect.VIEW, "view_as_real view_as_complex", shape="unranked", index=True),
    **_rows(Effect.VIEW, "atleast_1d", shape="at-least-1", index=True),
    **_rows(Effect.VIEW, "atleast_2d", shape="at-least-2", index=True),
    **_rows(Effect.VIEW, "atleast_3d", shape="at-least-3", index=True),
    **_rows(Effect.PIECES, "split split_with_sizes", shape="split", index=True),
    **_rows(Effect.PIECES, "chunk tensor_split", shape="chunk", index=True),
    **_rows(Effect.PIECES, "hsplit dsplit", shape="columns", index=True),
    **_rows(Effect.PIECES, "vsplit", shape="rows", index=True),
    **_rows(Effect.PIECES, "unbind", shape="unbind", index=True),
    # The same tensor where its layout allows it
    **_rows(Effect.DENSIFY, "contiguous", shape="same", index=True),
    **_rows(Effect.DENSIFY, "reshape", shape="view", index=True),
    **_rows(Effect.DENSIFY, "reshape_as", shape="like-other", index=True),
    **_rows(Effect.DENSIFY, "flatten", shape="flattened", index=True),
    **_rows(Effect.DENSIFY, "ravel", shape="raveled", index=True),
    # Casts
    **_rows(Effect.CAST, "float", shape="float32", index=True),
    **_rows(Effect.CAST, "double", shape="float64", index=True),
    **_rows(Effect.CAST, "half", shape="float16", index=True),
    **_rows(Effect.CAST, "bfloat16", shape="bfloat16", index=True),
    **_rows(Effect.CAST, "long", shape="int64", index=True),
    **_rows(Effect.CAST, "int", shape="int32", index=True),
    **_rows(Effect.CAST, "short", shape="int16", index=True),
    **_rows(Effect.CAST, "char", shape="int8", index=True),
    **_rows(Effect.CAST, "byte", shape="uint8", index=True),
    **_rows(Effect.CAST, "bool", shape="bool", index=True),
    **_rows(Effect.CAST, "cfloat", shape="complex64"),
    **_rows(Effect.CAST, "cdouble", shape="complex128"),
    # Fresh results: integer and boolean index arithmetic, exact on every device
    **_rows(
        Effect.FRESH,
        "add sub subtract mul multiply neg floor_divide remainder fmod bitwise_and bitwise_or bitwise_xor bitwise_not "
        "logical_and logical_or logical_not logical_xor eq ne lt le gt ge maximum minimum clamp clamp_min clamp_max "
        "abs square cat concat concatenate stack hstack vstack row_stack dstack column_stack where cumsum cumprod sum "
        "prod amax amin argmax argmin repeat tile flip fliplr flipud roll rot90 tril triu masked_fill "
        "index_select gather take take_along_dim cartesian_prod clone diag diff "
        "bitwise_left_shift bitwise_right_shift pow diag_embed scatter scatter_add index_add index_copy index_fill "
        "clip block_diag combinations any all isin argsort",
        index=True,
    ),
    **_rows(Effect.FRESH, "pad", index=True),
    # Fresh results: data dependent or floating point
    **_rows(
        Effect.FRESH,
        "div divide true_divide rsub mean std var exp log sqrt rsqrt sin cos tan tanh sigmoid softmax log_softmax relu "
        "gelu silu matmul mm bmm mv dot addmm einsum baddbmm outer cross norm nonzero argwhere masked_select bincount "
        "repeat_interleave searchsorted bucketize multinomial bernoulli round floor ceil trunc frac lerp sign "
        "reciprocal erf atan2 atan acos asin cosh sinh logsumexp nan_to_num isnan isinf isfinite count_nonzero "
        "embedding one_hot interpolate layer_norm normalize linear conv1d conv2d conv3d avg_pool2d max_pool2d "
        "histc to_sparse to_dense coalesce dequantize from_sparse trace cdist polar complex angle "
        "index_put masked_scatter unravel_index pad_sequence pixel_shuffle scatter_reduce kron tensordot vander "
        "logcumsumexp quantile nanmean nansum nanmedian hypot deg2rad rad2deg sinc select_scatter slice_scatter "
        "poisson heaviside gcd lcm corrcoef cov renorm trapezoid cumulative_trapezoid erfinv erfc logit sgn msort "
        "logaddexp digamma lgamma pixel_unshuffle xlogy special_erf group_norm batch_norm instance_norm "
        "expm1 log1p log2 log10 exp2 float_power addcmul addcdiv inverse pinverse det svd lstsq matrix_exp",
    ),
    **_rows(
        Effect.FRESH_PAIR,
        "sort topk unique unique_consecutive max min median mode kthvalue cummax cummin qr eig frexp aminmax var_mean "
        "std_mean",
    ),
    **_rows(Effect.FRESH_PAIR, "meshgrid", index=True),
    **_rows(Effect.PRIVATE, "share_memory_ share_memory"),
    # Factories on a tensor
    **_rows(Effect.FACTORY, "new_zeros new_ones", shape="sizes", index=True),
    **_rows(Effect.FACTORY, "new_empty", shape="sizes"),
    **_rows(Effect.FACTORY, "new_full", shape="first", index=True),
    **_rows(Effect.FACTORY, "new_empty_strided", shape="strided"),
    **_rows(Effect.DATA, "new_tensor new"),
    # Host side
    **_rows(Effect.NUMPY, "numpy __array__"),
    **_rows(Effect.PIN, "pin_memory"),
    **_rows(Effect.HOST_READ, "equal allclose is_nonzero item tolist __bool__ __int__ __float__ __index__"),
    **_rows(Effect.TRANSFER, "to cpu cuda npu xpu hpu musa mlu ipu sdaa copy_ type type_as"),
    **_rows(
        Effect.QUERY,
        "size stride dim ndimension numel nelement element_size is_contiguous is_pinned storage_offset data_ptr "
        "get_device is_floating_point is_complex nbytes ndim shape device dtype layout is_cuda is_cpu is_sparse "
        "requires_grad grad_fn names backward register_hook record_stream untyped_storage storage __len__ is_shared",
    ),
}
"""Methods and attributes of a tensor; most are functions of `torch` and `torch.nn.functional` as well."""

TRANSFER_METHODS: dict[str, str] = {
    "cpu": "cpu",
    "cuda": "cuda",
    "npu": "npu",
    "xpu": "xpu",
    "hpu": "hpu",
    "musa": "musa",
    "mlu": "mlu",
    "ipu": "ipu",
    "sdaa": "sdaa",
}
"""Methods named after the device they move to; the signature is `(device=None, non_blocking=False)`."""

FLAG_POSITION: dict[str, int] = {
    "to": 2,
    "copy_": 1,
    "_foreach_copy_": 2,
    **dict.fromkeys(TRANSFER_METHODS, 1),
    "type": 1,
    "_to": 2,
}
"""Where `non_blocking` stands when it is given by position. For `.to(other)` and `.to(dtype)` it is one earlier."""

DTYPES: dict[str, int] = {
    "float64": 8, "double": 8, "int64": 8, "long": 8, "complex64": 8, "cfloat": 8,
    "float32": 4, "float": 4, "int32": 4, "int": 4, "uint32": 4,
    "float16": 2, "half": 2, "bfloat16": 2, "int16": 2, "short": 2, "uint16": 2,
    "int8": 1, "uint8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "complex128": 16, "uint64": 8,
}  # fmt: skip
"""Bytes of an element, by dtype name."""

SAME_DTYPE: dict[str, str] = {
    "double": "float64", "float": "float32", "half": "float16", "cfloat": "complex64",
    "long": "int64", "int": "int32", "short": "int16",
}  # fmt: skip
"""Second names of a dtype."""

LEGACY_CUDA: frozenset[str] = frozenset(
    [
        "FloatTensor",
        "DoubleTensor",
        "HalfTensor",
        "BFloat16Tensor",
        "LongTensor",
        "IntTensor",
        "ShortTensor",
        "CharTensor",
        "ByteTensor",
        "BoolTensor",
    ]
)
"""`torch.cuda.FloatTensor(list)` and its kin."""

ACCELERATOR_MODULES: frozenset[str] = frozenset(["cuda", "npu", "xpu", "hpu", "musa", "mlu", "mps", "rbln"])
"""Submodules of torch that stand for a kind of device."""

STREAM_MODULES: frozenset[str] = ACCELERATOR_MODULES | {"", "accelerator", "cuda.streams", "cuda.graphs"}
"""Modules of torch whose functions are about streams."""

AVAILABILITY: frozenset[str] = frozenset(
    {
        *(f"torch.{kind}.is_available" for kind in ACCELERATOR_MODULES),
        "torch.accelerator.is_available",
        "torch.backends.cuda.is_built",
        "torch.cuda.device_count",
        "torch.accelerator.device_count",
        "torch.backends.mps.is_available",
    }
)
"""Calls that are true exactly where an accelerator is present."""

MAY_ALIAS: frozenset[str] = frozenset(["einsum", "meshgrid", "cartesian_prod"])
"""Computations that give back views of their inputs where nothing has to be computed."""

WAITS: frozenset[str] = frozenset(
    [
        "nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount", "histc", "combinations",
        "equal", "allclose", "is_nonzero", "repeat_interleave", "one_hot", "cov", "corrcoef", "to_sparse",
        "inverse", "pinverse", "matrix_exp", "unravel_index",
    ]
)  # fmt: skip
"""Calls whose result's size or value the host must know: on a device they wait (measured)."""

WAITING_FUNCTIONS: frozenset[str] = frozenset(
    f"torch.linalg.{name}"
    for name in (
        "cholesky", "cond", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "lu_factor", "matrix_rank", "pinv",
        "solve", "svd",
    )
) | {"torch.cholesky", "torch.svd"}  # fmt: skip
"""The same for functions that are no methods: most look on the host whether a matrix could be taken apart (measured;
the variants in `_ex` do not)."""

WITHOUT_WAIT: dict[str, str] = {"repeat_interleave": "output_size", "one_hot": "num_classes"}
"""The argument that tells the size beforehand."""

TAKES_NUMBERS: frozenset[str] = frozenset(
    [
        "repeat",
        "tile",
        "flip",
        "fliplr",
        "flipud",
        "roll",
        "rot90",
        "cumsum",
        "cumprod",
        "sum",
        "prod",
        "amax",
        "amin",
        "argmax",
        "argmin",
        "any",
        "all",
        "argsort",
        "diff",
        "tril",
        "triu",
        "pad",
        "stack",
        "cat",
        "concat",
        "concatenate",
        "hstack",
        "vstack",
        "row_stack",
        "dstack",
        "column_stack",
        "clone",
        "diag",
        "square",
        "abs",
        "neg",
    ]
)
"""Calls whose arguments after the first are numbers, never tensors: an unknown one hides no host data."""

IN_NAMESPACES: tuple[str, ...] = (
    "torch.nn.functional.",
    "torch.nn.utils.rnn.",
    "torch.functional.",
    "torch.special.",
    "torch.linalg.",
    "torch.utils.dlpack.",
    "torch.Tensor.",
    "torch._C._nn.",
)
"""Namespaces whose functions are looked up by their last name."""

NUMPY_VIEWS: frozenset[str] = frozenset(
    [
        "reshape",
        "ravel",
        "view",
        "squeeze",
        "T",
        "transpose",
        "swapaxes",
        "asarray",
        "asanyarray",
        "ascontiguousarray",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "broadcast_to",
        "diagonal",
        "expand_dims",
        "moveaxis",
    ]
)
NUMPY_FRESH: frozenset[str] = frozenset(
    [
        "array",
        "zeros",
        "ones",
        "empty",
        "full",
        "arange",
        "linspace",
        "zeros_like",
        "ones_like",
        "empty_like",
        "full_like",
        "concatenate",
        "stack",
        "hstack",
        "vstack",
        "where",
        "cumsum",
        "cumprod",
        "repeat",
        "tile",
        "diff",
        "sort",
        "argsort",
        "unique",
        "nonzero",
        "flatnonzero",
        "flatten",
        "copy",
        "astype",
        "add",
        "subtract",
        "multiply",
        "divide",
        "floor_divide",
        "mod",
        "minimum",
        "maximum",
        "clip",
        "sum",
        "prod",
        "mean",
        "max",
        "min",
        "fromiter",
        "frombuffer",
        "load",
        "array_split",
        "split",
        "concat",
        "pad",
        "roll",
        "flip",
        "eye",
        "identity",
        "meshgrid",
        "random",
        "isin",
        "searchsorted",
        "take",
        "select",
        "argmax",
        "argmin",
        "abs",
        "absolute",
        "equal",
        "not_equal",
        "logical_and",
        "logical_or",
        "logical_not",
        "append",
        "insert",
        "delete",
        "round",
        "floor",
        "ceil",
        "sqrt",
        "exp",
        "log",
        "random_sample",
        "randint",
        "permutation",
        "choice",
        "rand",
        "randn",
        "fromstring",
        "take_along_axis",
        "apply_along_axis",
        "choose",
        "compress",
        "extract",
        "argpartition",
        "argwhere",
        "lexsort",
        "bincount",
        "union1d",
        "setdiff1d",
        "ediff1d",
        "column_stack",
        "row_stack",
        "dstack",
        "block",
        "outer",
        "kron",
        "cross",
        "tri",
        "tril",
        "triu",
        "diagflat",
        "indices",
        "logspace",
        "geomspace",
        "packbits",
        "unpackbits",
    ]
)
