// Functions that copy a tensor's values from JSON to its memory.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <string_view>

#include "base/status.h"
#include "tensor/data_type.h"

namespace braid {

// The form in which the values of one tensor appear in JSON.
enum class JsonForm : unsigned char {
  kNested,  // the 'data' of an infer request: arrays, flat or nested
  kFlat,    // a key of a generate request: one value, or an array of values
};

// Return the number of values in the flat form, and in the nested form.
size_t CountJsonValues(simdjson::dom::element data);
size_t CountNestedJsonValues(simdjson::dom::element data);

// Adds to `bytes` the size of `count` strings as a BYTES tensor. Errors: INTERNAL, with the protocol's texts
// for values of another type or number.
Status MeasureJsonStrings(simdjson::dom::element data, JsonForm form, size_t count, size_t* bytes);

// Writes `count` values of a type that JSON can carry to `out`. Errors: as above, and values out of the
// type's range.
// REQUIRES: `out` has room for the values. For BYTES, MeasureJsonStrings() has succeeded.
Status FillFromJson(simdjson::dom::element data, JsonForm form, DataType type, size_t count, std::byte* out);

// The error of both functions for a wrong number of values.
Status JsonCountError(JsonForm form);
// INTERNAL, worded as requests of this form expect.
Status JsonDataError(JsonForm form, std::string_view text);

}  // namespace braid
