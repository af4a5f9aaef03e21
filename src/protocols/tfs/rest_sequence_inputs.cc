#include "protocols/tfs/rest_sequence_inputs.h"

#include <string>

#include "serving/faults.h"

namespace braid {
namespace {

using simdjson::dom::element;

Status NoNumber(Fault fault, std::string_view name) {
  return FaultError(fault, std::string("expected a non-negative integer; input name: ").append(name));
}

Result<uint64_t> Number(Fault fault, std::string_view name, element value) {
  uint64_t number = 0;
  if (value.get_uint64().get(number)) return NoNumber(fault, name);
  return number;
}

// Reads a number, or numbers in one array.
Result<SequenceInput> ReadValue(Fault fault, std::string_view name, element value) {
  SequenceInput input;
  simdjson::dom::array array;
  if (value.get_array().get(array)) {
    input.has_shape = false;
    BRAID_ASSIGN_OR_RETURN(input.value, Number(fault, name, value));
    return input;
  }
  int64_t count = 0;
  for (element item : array) {
    BRAID_ASSIGN_OR_RETURN(input.value, Number(fault, name, item));
    ++count;
  }
  input.shape = {count};
  if (count != 1) input.value.reset();
  return input;
}

Status DifferentNumbers(std::string_view name, uint64_t first, uint64_t other, size_t place) {
  return InvalidArgumentError(std::string("all instances of a request must have the same ")
                                  .append(name)
                                  .append(": it is ")
                                  .append(std::to_string(first))
                                  .append(" in the first and ")
                                  .append(std::to_string(other))
                                  .append(" in instance ")
                                  .append(std::to_string(place)));
}

}  // namespace

Result<SequenceInput> ReadSequenceColumn(std::string_view name, element value) {
  return ReadValue(Fault::kRestCouldNotParseInput, name, value);
}

Result<SequenceInput> ReadSequenceRows(std::string_view name, std::span<const element> values) {
  SequenceInput all;
  for (size_t i = 0; i < values.size(); ++i) {
    BRAID_ASSIGN_OR_RETURN(SequenceInput one, ReadValue(Fault::kRestCouldNotParseInstance, name, values[i]));
    if (one.has_shape) {
      one.shape.insert(one.shape.begin(), static_cast<int64_t>(values.size()));
      return one;
    }
    if (i == 0) {
      all = std::move(one);
    } else if (*one.value != *all.value) {
      return DifferentNumbers(name, *all.value, *one.value, i + 1);
    }
  }
  all.has_shape = true;
  all.shape = {1};
  return all;
}

}  // namespace braid
