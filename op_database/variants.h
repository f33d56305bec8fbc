// The inputs of a sample in the dtypes and layouts that the checks run it in.
#pragma once

#include "op_database/layouts.h"
#include "op_database/op_database.h"

namespace extensor::op_database {

inline constexpr DType every_dtype[] = {
    DType::float64, DType::float32, DType::float16, DType::bfloat16, DType::int8,
    DType::int16,   DType::int32,   DType::int64,   DType::uint8,    DType::uint16,
    DType::uint32,  DType::uint64,  DType::bool_};

// Whether some input has variable dtypes, and whether some input differs in that layout.
bool has_dtypes(const Sample& sample);
bool has_layout(const Sample& sample, layouts::Layout layout);

// The inputs, the floating ones in `dtype`, all in `layout`. Inputs of other dtypes (indices,
// masks) keep dtype and values.
Tensors arranged(const Sample& sample, DType dtype, layouts::Layout layout);

Tensors dense(const Tensors& tensors);
Tensors in_float64(const Tensors& tensors);
Tensors joined(Tensors first, const Tensors& second);

// The values of a float64 tensor in `dtype`: integers wrap, floats are not rounded.
Tensor wrapped(const Tensor& exact, DType dtype);

}  // namespace extensor::op_database
