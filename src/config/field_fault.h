// FieldFault: an error in a configuration, with the field that has it.
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

  // The error for users; OK if there is none.
  Status status;
  // The field in the notation of the text form, with an index for repeated fields and a key for map entries:
  // "instance_group[0].kind", "parameters[EXECUTION_ENV_PATH]". For a missing field, the place where it
  // belongs. Empty for the configuration as a whole.
  std::string field;
};

// Limits a fault's text, because names from the configuration may be as long as its file.
inline constexpr size_t kMostFaultText = 4096;

inline FieldFault InvalidField(const std::string& text, std::string field) {
  return {InvalidArgumentError(Shortened(text, kMostFaultText)), std::move(field)};
}

// Returns "input[2]" for "input" and 2.
inline std::string FieldAt(std::string field, int index) {
  return std::move(field) + "[" + std::to_string(index) + "]";
}

}  // namespace braid

// Returns the FieldFault `expression` from the enclosing function unless it is ok().
#define BRAID_RETURN_IF_FAULT(expression)                                      \
  do {                                                                         \
    if (::braid::FieldFault braid_fault_ = (expression); !braid_fault_.ok()) { \
      return braid_fault_;                                                     \
    }                                                                          \
  } while (false)
