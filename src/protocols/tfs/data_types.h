// Conversion between TensorFlow's element types and DataType.
#pragma once

#include <cstdint>
#include <optional>

#include "tensor/data_type.h"
#include "tensorflow.pb.h"

namespace braid {

// Returns the type for the `dtype` of a TensorProto. nullopt for types that no servable has (complex,
// quantised, resources) and for unknown numbers.
std::optional<DataType> FromTensorFlow(uint32_t dtype);

// Returns DT_STRING for kBytes, DT_INVALID for kInvalid.
tensorflow::DataType ToTensorFlow(DataType type);

// Returns the number of the TensorProto field for elements of the type outside tensor_content; 0 for
// kInvalid.
uint32_t ValueField(DataType type);

}  // namespace braid
