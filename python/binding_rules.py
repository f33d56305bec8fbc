"""Which public functions Python has, under which names, and how each C++ type is passed."""

from __future__ import annotations

# Functions by name and overloads by the spelling of a parameter's or result's type.
OMITTED = [
    (r"void \(\*\)|void\*", "pointers: use asarray, from_dlpack and the buffer protocol"),
    (r"std::nullopt_t", "another overload has the keyword min or max"),
    (r"std::initializer_list<(Literal|std::int64_t)>", "literals: use tensor()"),
    (r"StoragePointer", "memory is managed by tensors"),
    (r"const std::vector<bool>&", "use tensor()"),
    (r"\w+State&", "the optimizers of extensor.optim hold their states"),
    (r"std::span<Tensor>", "extensor.optim has the function for parameters"),
    (r"ForwardFunction|BackwardFunction|CustomFunction", "extensor.autograd.Function"),
    (r"GptOptions", "extensor.models.Gpt takes the options as keywords"),
    (r"ProfileOptions", "extensor.profile, a context manager"),
    (r"Tokenizer", "bound by hand, with the classes of tokenizers"),
    (r"Checkpoint", "extensor.train.Trainer writes and reads checkpoints"),
    (r"\bReport\b", "bound by hand, with keywords"),
    (r"Collate|Subset|Example\b|Batch\b",
     "extensor.data has these for datasets and collate functions written in Python"),
    (r"OnnxModel|OnnxFunction", "extensor.onnx.load and extensor.onnx.export"),
    (r"\bCommunicator\b", "training on several ranks is not bound yet"),
    (r"\bTable\b|Column\b|TableSplit|TableOptions", "tables are not bound yet"),
]  # fmt: skip
OMITTED_NAMES = {
    "to_string": "str() and repr()",
    "version": "extensor.__version__",
    "name": "DType.name",
    "itemsize": "DType.itemsize",
    "default_generator": "bound by hand, with the class Generator",
    "promote_with_scalar": "bound by hand, as result_type",
    "scalar": "use tensor()",
    "tensor": "bound by hand",
    "is_initialized": "training on several ranks is not bound yet",
}

# (kind, count) → the type object, the expression that reads argument i, the annotation of a result.
TYPES = {
    ("tensor", "one"): ("tensor", "call.tensor({i})", "Tensor"),
    ("tensor", "optional"): ("tensor_or_none", "call.tensor({i})", "Tensor"),
    ("tensor", "list"): ("tensors", "call.tensors({i})", "tuple[Tensor, ...]"),
    ("tensor", "pair"): (None, None, "tuple[Tensor, Tensor]"),
    ("tensor", "map"): ("named_tensors", "call.named_tensors({i})", "dict[str, Tensor]"),
    ("scalar", "one"): ("scalar", "call.scalar({i})", "float"),
    ("scalar", "optional"): ("scalar_or_none", "call.scalar({i})", "float | None"),
    ("integer", "one"): ("integer", "call.integer({i})", "int"),
    ("integer", "optional"): ("integer_or_none", "call.integer({i})", "int | None"),
    ("integer", "pairs"): ("padding", "call.padding({i})", "list[tuple[int, int]]"),
    ("integer", "list"): ("integers", "call.integers({i})", "list[int]"),
    ("number", "one"): ("number", "call.number({i})", "float"),
    ("number", "optional"): ("number_or_none", "call.number({i})", "float | None"),
    ("number", "list"): ("numbers", "call.numbers({i})", "list[float]"),
    ("number", "pair"): ("number_pair", "call.number_pair({i})", "tuple[float, float]"),
    ("boolean", "one"): ("boolean", "call.boolean({i})", "bool"),
    ("boolean", "optional"): ("boolean_or_none", "call.boolean({i})", "bool | None"),
    ("boolean", "list"): ("booleans", "call.three_booleans({i})", "list[bool]"),
    ("string", "one"): ("string", "call.string({i})", "str"),
    ("string", "list"): ("strings", "call.strings({i})", "list[str]"),
    ("string", "map"): ("named_tensors", "call.string_map({i})", "dict[str, str]"),
    ("path", "one"): ("path", "call.path({i})", "str"),
    ("path", "list"): (None, None, "list[str]"),
    ("axes", "one"): ("axes", "call.axes({i})", None),
    ("shape", "one"): ("shape", "call.shape({i})", "tuple[int, ...]"),
    ("shape", "optional"): ("shape_or_none", "call.shape({i})", "tuple[int, ...] | None"),
    ("shape", "list"): ("shapes", "call.shapes({i})", None),
    ("scale", "optional"): ("scale2d_or_none", "call.scale2d({i})", None),
    ("dtype", "one"): ("dtype", "call.dtype({i})", "DType"),
    ("dtype", "optional"): ("dtype_or_none", "call.dtype({i})", "DType | None"),
    ("device", "one"): ("device", "call.device({i})", "Device"),
    ("device", "optional"): ("device_or_none", "call.device({i})", "Device | None"),
    ("generator", "one"): ("generator", "call.generator({i})", None),
    ("index", "list"): ("index", "call.index({i})", None),
    ("nothing", "one"): (None, None, "None"),
}
# Other types by their spelling without const and reference: the same, with the annotation of a field.
OTHER_TYPES = {
    "Gpt": ("gpt", "call.gpt({i})", None),
    "ModelReference": ("model", "call.model({i})", None),
    "data::DataLoader": ("loader", "call.loader({i})", None),
    "Loss": ("loss", "call.loss({i})", None),
    "std::optional<std::pair<double, double>>": ("number_pair_or_none", "call.number_pair({i})", None),
    "std::function<bool(const Tensor&)>": ("function_or_none", "call.token_function({i})", None),
    "Transform": (None, None, "Transform"),
    "SamplerPointer": (None, None, "Sampler"),
    "GradientNorm": (None, None, "Tensor"),
    "std::optional<ConfusionMatrix>": (None, None, "ConfusionMatrix | None"),
}
# The keywords of the Python Array API for parameters that have another name in C++, which is accepted,
# too. The parameter `axes` of any reduction is `axis`; Fourier transforms keep it.
KEYWORDS = {
    "eye": {"rows": "n_rows", "columns": "n_cols", "diagonal": "k"},
    "full": {"value": "fill_value"},
    "full_like": {"value": "fill_value"},
    "linspace": {"count": "num"},
    "roll": {"shifts": "shift"},
    "tril": {"diagonal": "k"},
    "triu": {"diagonal": "k"},
}
# Keywords that change nothing: every sort is stable.
WITHOUT_EFFECT = {"sort": {"stable": "True"}, "argsort": {"stable": "True"}}
# Functions of which extensor/_array_api.py has a version with the arguments of the Array API. They are
# bound with a leading underscore.
WRAPPED = {"arange", "bitwise_left_shift", "bitwise_right_shift", "broadcast_arrays", "clip", "concat", "concatenate", "einsum", "isdtype", "meshgrid", "nonzero", "reshape",
           "searchsorted", "tensordot", "trace"}  # fmt: skip
# Functions that walk a graph, whose backwards may be written in Python: they run without the GIL however
# small the tensors are. While one thread waits for a node, the thread that runs it may need the GIL.
WALKS_GRAPH = {"grad"}
UNSIGNED = {"std::size_t", "std::uint64_t"}
