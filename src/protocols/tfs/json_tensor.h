// Reads tensors from the JSON of the REST API: numbers, booleans, strings and {"b64": "..."} in arrays of any
// depth.
#pragma once

#include <simdjson.h>

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <string_view>

#include "base/status.h"
#include "serving/faults.h"
#include "serving/servable.h"
#include "tensor/tensor.h"

namespace braid {

// The JSON values of one tensor. In column format there is one value. In row format there is one per row, and
// the rows are an additional outermost dimension.
struct JsonTensorSource {
  boost::container::small_vector<simdjson::dom::element, 4> values;
  bool rows = false;
};

// Returns whether `value` is an object with "b64" as its only key.
bool IsBase64Object(simdjson::dom::element value);

// The wanted type of a tensor.
struct JsonTensorType {
  // kInvalid: the type follows from the first value.
  DataType type = DataType::kInvalid;
  // Strings in place of numbers are encoded images and make the tensor BYTES.
  bool images = false;
};

// Sets type, shape and data of `tensor`, whose name is already set. Numbers are cast to `wanted`. The data is
// written once, into memory of `allocator`; `json_bytes`, the document's size, bounds it. Errors: `fault`
// with the reason, for ragged arrays, values of another kind or beyond the type's range, and invalid base64;
// those of the allocator.
Status ReadJsonTensor(const JsonTensorSource& source, JsonTensorType wanted, size_t json_bytes, Fault fault,
                      BufferAllocator& allocator, Tensor& tensor);

}  // namespace braid
