// TensorFlow's element types and ours.
#pragma once

#include <cstdint>
#include <optional>

#include "tensor/data_type.h"
#include "tensorflow.pb.h"

namespace braid {

// `dtype` as it stands in a TensorProto; nothing for those that no servable has (complex, quantised,
// resources) and for numbers that are no type.
std::optional<DataType> FromTensorFlow(uint32_t dtype);

// DT_STRING for kBytes, DT_INVALID for kInvalid.
tensorflow::DataType ToTensorFlow(DataType type);

// The field of a TensorProto, by its number, in which elements of the type stand when they are not in
// tensor_content; 0 for kInvalid.
uint32_t ValueField(DataType type);

}  // namespace braid
