"""Models of one operator, in the forms that files have it: for the import of operators, attributes and
older versions that the exporter does not write."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(5)


def floats(*shape):
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def node(op, inputs, constants=(), opset=17, outputs=1, **attributes):
    """A model of one node: inputs are arrays or None, constants follow them as initializers."""
    names, graph_inputs, initializers = [], [], []
    for k, value in enumerate([*inputs, *constants]):
        if value is None:
            names.append("")
            continue
        names.append(f"t{k}")
        if k < len(inputs):
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            graph_inputs.append(helper.make_tensor_value_info(f"t{k}", kind, value.shape))
        else:
            initializers.append(numpy_helper.from_array(np.asarray(value), f"t{k}"))
    results = [f"y{k}" for k in range(outputs)]
    made = helper.make_node(op, names, results, **attributes)
    graph = helper.make_graph(
        [made], "g", graph_inputs, [helper.make_empty_tensor_value_info(name) for name in results], initializers
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return model, [value for value in inputs if value is not None]


def models():
    x, image = floats(2, 3, 4), floats(2, 4, 7, 6)
    positive = np.abs(x) + 0.5
    whole = RANDOM.integers(-9, 9, (2, 3, 4))
    truth = x > 0
    for op in "Abs Sign Neg Ceil Floor Round Exp Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Atanh Erf Relu \
Sigmoid Softplus Softsign HardSwish Identity IsNaN".split():
        yield op, node(op, [x])
    for op in "Log Sqrt Reciprocal".split():
        yield op, node(op, [positive])
    yield "Acosh", node("Acosh", [positive + 1])
    yield "Mish", node("Mish", [x], opset=18)
    yield "LeakyRelu", node("LeakyRelu", [x])
    yield "Elu", node("Elu", [x], alpha=0.5)
    yield "Celu", node("Celu", [x], alpha=2.0)
    yield "Selu", node("Selu", [x])
    yield "Selu_other", node("Selu", [x], alpha=1.5, gamma=2.0)
    yield "HardSigmoid", node("HardSigmoid", [x * 4])
    yield "ThresholdedRelu", node("ThresholdedRelu", [x], alpha=0.3)
    yield "Gelu", node("Gelu", [x], opset=20)
    yield "Gelu_tanh", node("Gelu", [x], opset=20, approximate="tanh")
    yield "PRelu", node("PRelu", [x, floats(3, 1)])
    for op in "Add Sub Mul Div Max Min Less LessOrEqual Greater GreaterOrEqual Equal Sum Mean".split():
        yield op, node(op, [x, floats(3, 1)])
    yield "Sum_3", node("Sum", [x, floats(4), floats(3, 1)])
    yield "Div_integers", node("Div", [whole, np.where(whole % 4 == 0, -3, 2)])
    yield "Mod", node("Mod", [whole, np.full_like(whole, 3)])
    dividends = np.array([1, -1, 1, -1, np.inf, 0.3], np.float32)
    divisors = np.array([np.inf, np.inf, 0.1, 0.1, 2, 0], np.float32)
    yield "Mod_fmod_specials", node("Mod", [dividends, divisors], fmod=1)
    yield "Mod_fmod", node("Mod", [x * 9, np.full_like(x, 2.5)], fmod=1)
    yield "Pow", node("Pow", [positive, floats(4)])
    yield "Pow_integers", node("Pow", [x, np.full((4,), 2, np.int64)])
    for op in "And Or Xor".split():
        yield op, node(op, [truth, floats(4) > 0])
    yield "Not", node("Not", [truth])
    yield "BitShift", node("BitShift", [np.abs(whole).astype(np.uint32), np.full((4,), 2, np.uint32)], direction="LEFT")
    yield "BitwiseAnd", node("BitwiseAnd", [whole, np.full_like(whole, 6)], opset=18)
    yield "IsInf", node("IsInf", [np.array([np.inf, -np.inf, 1], np.float32)], detect_negative=0)
    yield "Where", node("Where", [truth, x, floats(4)])
    yield "Cast", node("Cast", [x * 9], to=TensorProto.INT32)
    yield "CastLike", node("CastLike", [x, ints(1)])
    yield "Clip", node("Clip", [x], [np.float32(-0.2)])
    yield "Clip_both", node("Clip", [x], [np.float32(-0.2), np.float32(0.3)])
    yield "Clip_max", node("Clip", [x, None], [np.float32(0.3)])
    yield "Clip_6", node("Clip", [x], opset=7, min=-0.3, max=0.4)

    yield "Shape", node("Shape", [x], start=-2)
    yield "Size", node("Size", [x])
    yield "ConstantOfShape", node("ConstantOfShape", [], [ints(2, 3)])
    yield "Range", node("Range", [], [np.float32(1), np.float32(4), np.float32(0.5)])
    yield "Reshape", node("Reshape", [x], [ints(0, -1)])
    yield "Flatten", node("Flatten", [x], axis=2)
    yield "Flatten_all", node("Flatten", [x], axis=0)
    yield "Transpose", node("Transpose", [x])
    yield "Squeeze", node("Squeeze", [floats(1, 3, 1)])
    yield "Squeeze_11", node("Squeeze", [floats(1, 3, 1)], opset=11, axes=[0])
    yield "Unsqueeze", node("Unsqueeze", [x], [ints(-1, 0)])
    yield "Unsqueeze_11", node("Unsqueeze", [x], opset=11, axes=[1, 2])
    yield "Expand", node("Expand", [floats(3, 1)], [ints(2, 1, 4)])
    yield "Slice", node("Slice", [x], [ints(-1, 3), ints(-100, 0), ints(1, 2), ints(-1, -2)])
    yield "Slice_before", node("Slice", [x], [ints(-6, 9), ints(-5, 0), ints(1, 2), ints(-2, -1)])
    yield "Slice_ends", node("Slice", [x], [ints(1), ints(2**62), ints(-1)])
    yield "Slice_9", node("Slice", [x], opset=9, starts=[0, 1], ends=[1, 9])
    yield "Split", node("Split", [x], [ints(1, 2)], outputs=2, axis=1)
    yield "Split_equal", node("Split", [x], outputs=2, axis=2)
    yield "Split_uneven", node("Split", [x], opset=18, outputs=2, axis=1, num_outputs=2)
    yield "Split_11", node("Split", [x], opset=11, outputs=2, axis=-1, split=[1, 3])
    yield "Concat", node("Concat", [x, x], axis=-2)
    yield "Tile", node("Tile", [x], [ints(2, 1, 3)])
    yield "Pad", node("Pad", [x], [ints(0, 1, 2, 0, 0, 1), np.float32(3)])
    yield "Pad_axes", node("Pad", [x], [ints(1, -1), np.float32(0), ints(-1)], opset=18)
    yield "Pad_reflect", node("Pad", [x], [ints(0, 1, 2, 0, 1, 3)], mode="reflect")
    yield "Pad_10", node("Pad", [x], opset=10, pads=[0, 1, 0, 0, 0, 2], value=2.0)
    yield "Gather", node("Gather", [x], [ints(2, -1, 0)], axis=1)
    yield "GatherElements", node("GatherElements", [x], [np.array([[[3, 0]], [[1, -1]]])], axis=2)
    for reduction in ("none", "add", "mul", "max", "min"):
        yield f"ScatterElements_{reduction}", node(
            "ScatterElements", [x], [np.array([[[3, 0]], [[1, 2]]]), floats(2, 1, 2)], opset=18, axis=2,
            reduction=reduction
        )  # fmt: skip
    yield "OneHot", node("OneHot", [ints(0, 2, -1)], [np.array(4), np.array([0.5, 2.0], np.float32)])
    yield "Trilu", node("Trilu", [x], [np.array(1)], upper=0)
    yield "NonZero", node("NonZero", [truth.astype(np.float32)])
    yield "DepthToSpace", node("DepthToSpace", [image], blocksize=2)
    yield "DepthToSpace_CRD", node("DepthToSpace", [image], blocksize=2, mode="CRD")

    for op in "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp \
ReduceLogSum".split():
        yield op, node(op, [positive], [ints(0, 2)], opset=18)
        yield op + "_11", node(op, [positive], opset=11, axes=[1], keepdims=0)
        yield op + "_all", node(op, [positive], opset=18, keepdims=0)
    yield "ReduceSum_noop", node("ReduceSum", [x], noop_with_empty_axes=1)
    for op in "ReduceL1", "ReduceL2", "ReduceSumSquare":
        yield f"{op}_noop", node(op, [x], opset=18, noop_with_empty_axes=1)
    yield "ReduceSum_integers", node("ReduceSum", [whole.astype(np.int32)], [ints(1)])
    yield "ArgMax", node("ArgMax", [x], axis=1)
    yield "ArgMin", node("ArgMin", [x], axis=-1, keepdims=0)
    yield "Softmax", node("Softmax", [x], axis=1)
    yield "Softmax_11", node("Softmax", [x], opset=11)
    yield "LogSoftmax", node("LogSoftmax", [x])
    yield "TopK", node("TopK", [x], [ints(2)], outputs=2, largest=0)
    yield "CumSum", node("CumSum", [x], [np.array(1)], reverse=1)

    yield "MatMul", node("MatMul", [x, floats(4, 5)])
    yield "MatMul_vector", node("MatMul", [x, floats(4)])
    yield "Gemm", node("Gemm", [floats(3, 2), floats(3, 4), floats(4)], transA=1, alpha=0.5, beta=2.0)
    yield "Gemm_matrix", node("Gemm", [floats(2, 3), floats(4, 3), floats(2, 1)], transB=1)
    yield "Einsum", node("Einsum", [x, x], equation="bij, bkj -> bik")
    yield "Conv", node("Conv", [image, floats(6, 2, 3, 2)], group=2, strides=[2, 1], pads=[1, 0, 2, 1])
    yield "Conv_same", node("Conv", [image, floats(3, 4, 3, 2), floats(3)], auto_pad="SAME_UPPER", strides=[2, 2])
    yield "Conv_lower", node("Conv", [image, floats(3, 4, 2, 2)], auto_pad="SAME_LOWER", strides=[1, 2])
    yield "Conv_1d", node("Conv", [x, floats(5, 3, 2)], dilations=[2])
    yield "Conv_3d", node("Conv", [floats(1, 2, 4, 4, 4), floats(3, 2, 2, 2, 2)], pads=[1, 0, 0, 0, 1, 0])
    yield "ConvTranspose", node("ConvTranspose", [image, floats(4, 2, 3, 3)], strides=[2, 2], output_padding=[1, 0])
    yield "ConvTranspose_pads", node("ConvTranspose", [image, floats(4, 2, 3, 3)], strides=[2, 2], pads=[1, 1, 0, 1])
    yield "ConvTranspose_behind", node(
        "ConvTranspose", [image, floats(4, 2, 3, 3)], strides=[2, 1], pads=[0, 1, 2, 2]
    )
    yield "MaxPool", node("MaxPool", [image], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 0, 1])
    yield "MaxPool_ceil", node("MaxPool", [image], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    yield "MaxPool_ceil_uneven", node(
        "MaxPool", [image], kernel_shape=[3, 3], strides=[2, 3], pads=[2, 1, 2, 2], ceil_mode=1
    )
    yield "MaxPool_1d", node("MaxPool", [x], kernel_shape=[2])
    yield "AveragePool", node("AveragePool", [image], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    yield "AveragePool_ceil_uneven", node(
        "AveragePool", [floats(1, 2, 9, 7)], kernel_shape=[3, 3], strides=[1, 3], pads=[0, 1, 0, 2], ceil_mode=1
    )
    yield "AveragePool_counted", node("AveragePool", [image], kernel_shape=[2, 2], pads=[1, 0, 0, 1], count_include_pad=1)
    yield "AveragePool_uneven", node("AveragePool", [image], kernel_shape=[2, 2], pads=[0, 0, 1, 1])
    yield "GlobalAveragePool", node("GlobalAveragePool", [image])
    yield "GlobalAveragePool_1d", node("GlobalAveragePool", [x])
    yield "GlobalMaxPool", node("GlobalMaxPool", [image])
    channels = [floats(4), floats(4), floats(4), np.abs(floats(4)) + 0.5]
    yield "BatchNormalization", node("BatchNormalization", [image], channels, epsilon=1e-3)
    yield "LayerNormalization", node("LayerNormalization", [x], [floats(3, 4), floats(3, 4)], axis=1)
    yield "InstanceNormalization", node("InstanceNormalization", [image], channels[:2])
    yield "GroupNormalization", node("GroupNormalization", [image], channels[:2], opset=21, num_groups=2)
    yield "RMSNormalization", node("RMSNormalization", [x], [floats(4)], opset=23)
    yield "Attention", node("Attention", [floats(2, 4, 3, 5), floats(2, 2, 6, 5), floats(2, 2, 6, 5)], opset=23)
    yield "Attention_joined", node(
        "Attention", [floats(2, 3, 8), floats(2, 3, 8), floats(2, 3, 8)], opset=23, q_num_heads=2, kv_num_heads=2,
        is_causal=1
    )  # fmt: skip
    yield "Dropout", node("Dropout", [x])
    for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        for op, gates, options in (("LSTM", 4, {}), ("GRU", 3, {"linear_before_reset": 1}), ("RNN", 1, {})):
            weights = [floats(count, gates * 5, 4), floats(count, gates * 5, 5), floats(count, 2 * gates * 5)]
            states = [None, floats(count, 3, 5)] + ([floats(count, 3, 5)] if op == "LSTM" else [])
            yield f"{op}_{direction}", node(
                op, [floats(6, 3, 4)], weights + states, outputs=3 if op == "LSTM" else 2, hidden_size=5,
                direction=direction, **options
            )  # fmt: skip
    scale = np.array([1, 1, 2, 1.5], np.float32)
    yield "Resize", node("Resize", [image, None], [scale], mode="linear")
    yield "Resize_corners", node(
        "Resize", [image, None, None], [ints(2, 4, 9, 5)], mode="cubic", coordinate_transformation_mode="align_corners"
    )
    yield "Resize_nearest", node(
        "Resize", [image, None], [scale], mode="nearest", coordinate_transformation_mode="asymmetric",
        nearest_mode="floor"
    )  # fmt: skip
    yield "Resize_below", node(
        "Resize", [floats(1, 2, 10, 10), None], [np.array([1, 1, 0.7, 1.3], np.float32)], mode="linear"
    )
