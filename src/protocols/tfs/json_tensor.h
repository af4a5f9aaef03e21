// Tensors out of the JSON of the REST API: numbers, booleans, strings and {"b64": "..."} in arrays of any
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

// The values of one tensor: one JSON value (column format), or one for each row, which the tensor has as a
// further, outermost dimension (row format).
struct JsonTensorSource {
  boost::container::small_vector<simdjson::dom::element, 4> values;
  bool rows = false;
};

// Whether it is an object of the one key "b64".
bool IsBase64Object(simdjson::dom::element value);

// What the values of a tensor are to become.
struct JsonTensorType {
  // kInvalid stands for what the first value suggests.
  DataType type = DataType::kInvalid;
  // Strings, which are encoded images, in place of numbers make the tensor one of BYTES.
  bool images = false;
};

// Fills type, shape and data of `tensor`, whose name is set. Numbers are cast to `wanted`. The data is
// written once, to memory of `allocator`; `json_bytes`, the size of the document, bounds it. Errors: `fault`
// with what is wrong, for ragged arrays, values of another kind or out of the type's range, and base64 that
// is none; those of the allocator.
Status ReadJsonTensor(const JsonTensorSource& source, JsonTensorType wanted, size_t json_bytes, Fault fault,
                      BufferAllocator& allocator, Tensor& tensor);

}  // namespace braid
