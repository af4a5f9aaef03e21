// Values of a tensor from JSON to its memory.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <string_view>

#include "base/status.h"
#include "tensor/data_type.h"

namespace braid {

// How the values of one tensor stand in JSON.
enum class JsonForm : unsigned char {
  kNested,  // the 'data' of an infer request: arrays, flat or within each other
  kFlat,    // a key of a generate request: one value, or an array of values
};

// How many values stand in the flat form, and in the nested form.
size_t CountJsonValues(simdjson::dom::element data);
size_t CountNestedJsonValues(simdjson::dom::element data);

// Adds the bytes that `count` strings take as a BYTES tensor. Errors: INTERNAL, with the texts of the
// protocol for values of another kind or number.
Status MeasureJsonStrings(simdjson::dom::element data, JsonForm form, size_t count, size_t* bytes);

// Writes `count` values of a type that JSON can carry to `out`, which has room for them. For BYTES, they were
// measured before. Errors: the same, and values out of the type's range.
Status FillFromJson(simdjson::dom::element data, JsonForm form, DataType type, size_t count, std::byte* out);

// What both return when the values are not as many as they should be.
Status JsonCountError(JsonForm form);
// INTERNAL, as the form words it.
Status JsonDataError(JsonForm form, std::string_view text);

}  // namespace braid
