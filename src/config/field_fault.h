// FieldFault: what is wrong with a configuration, and with which of its fields.
#pragma once

#include <string>
#include <utility>

#include "base/status.h"
#include "base/utf8.h"

namespace braid {

struct FieldFault {
  FieldFault() = default;
  FieldFault(Status status, std::string field) : status(std::move(status)), field(std::move(field)) {}

  bool ok() const { return status.ok(); }

  // What users are told; OK where nothing is wrong.
  Status status;
  // As the text form has it, with an index where a field may stand several times and the key of an entry of a map:
  // "instance_group[0].kind", "parameters[EXECUTION_ENV_PATH]". Of a field that is missing, where it would be. Empty
  // for the configuration as a whole.
  std::string field;
};

// A fault repeats names of the configuration, which may be as long as its file.
inline constexpr size_t kMostFaultText = 4096;

inline FieldFault InvalidField(const std::string& text, std::string field) {
  return {InvalidArgumentError(Shortened(text, kMostFaultText)), std::move(field)};
}

// "input", 2 -> "input[2]".
inline std::string FieldAt(std::string field, int index) {
  return std::move(field) + "[" + std::to_string(index) + "]";
}

}  // namespace braid

// Returns from the enclosing function when `expression` (a FieldFault) is one.
#define BRAID_RETURN_IF_FAULT(expression)                                      \
  do {                                                                         \
    if (::braid::FieldFault braid_fault_ = (expression); !braid_fault_.ok()) { \
      return braid_fault_;                                                     \
    }                                                                          \
  } while (false)
