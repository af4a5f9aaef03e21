// The one error type of Braid. Errors are values: a function that can fail returns Status or Result<T>.
//
// Clients see the codes (docs/protocols.md says how each protocol writes them). A message says which
// operation failed, where, why, and how to fix it. An OK status allocates nothing.
#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace braid {

// From kUnknown on, the numbers are those of pb_utils.TritonError in Python, plus one.
enum class StatusCode : unsigned char {
  kOk = 0,
  kUnknown = 1,
  kInternal = 2,
  kNotFound = 3,
  kInvalidArgument = 4,
  kUnavailable = 5,
  kUnsupported = 6,
  kAlreadyExists = 7,
  kCancelled = 8,
  // User code never reports the following codes.
  kFailedPrecondition = 9,
  kAborted = 10,
  kResourceExhausted = 11,
  kUnauthenticated = 12,
  kPermissionDenied = 13,
};

// Returns "OK", "Internal", "Not found", "Invalid argument", ...: the names in logs and in the repository
// index.
std::string_view StatusCodeName(StatusCode code);

// The exact cause of an error, for the cases that clients of OpenVINO Model Server distinguish;
// serving/faults.h lists them. 0: none of these.
enum class Fault : unsigned char;

class [[nodiscard]] Status {
 public:
  Status() = default;
  // REQUIRES: code is not kOk.
  Status(StatusCode code, std::string message, Fault fault = Fault{})
      : detail_(std::make_shared<const Detail>(Detail{code, fault, std::move(message)})) {
    BRAID_CHECK(code != StatusCode::kOk);
  }

  bool ok() const { return detail_ == nullptr; }
  StatusCode code() const { return detail_ ? detail_->code : StatusCode::kOk; }
  // The text for the client; empty if ok.
  const std::string& message() const;
  Fault fault() const { return detail_ ? detail_->fault : Fault{}; }
  // "Internal: text", or "OK".
  std::string ToString() const;

  // Returns the same error with another message. OK stays OK.
  Status WithMessage(std::string message) const;
  // Returns the same error with `prefix` before its message. OK stays OK.
  Status WithPrefix(std::string_view prefix) const;

  bool operator==(const Status& other) const {
    return code() == other.code() && message() == other.message();
  }

 private:
  struct Detail {
    StatusCode code;
    Fault fault;
    std::string message;
  };
  // Shared because a status is copied into every request of a failed batch.
  std::shared_ptr<const Detail> detail_;
};

inline Status OkStatus() { return Status(); }
inline Status UnknownError(std::string message) { return {StatusCode::kUnknown, std::move(message)}; }
inline Status InternalError(std::string message) { return {StatusCode::kInternal, std::move(message)}; }
inline Status NotFoundError(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
inline Status InvalidArgumentError(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}
inline Status UnavailableError(std::string message) { return {StatusCode::kUnavailable, std::move(message)}; }
inline Status UnsupportedError(std::string message) { return {StatusCode::kUnsupported, std::move(message)}; }
inline Status AlreadyExistsError(std::string message) {
  return {StatusCode::kAlreadyExists, std::move(message)};
}
inline Status FailedPreconditionError(std::string message) {
  return {StatusCode::kFailedPrecondition, std::move(message)};
}
inline Status CancelledError(std::string message) { return {StatusCode::kCancelled, std::move(message)}; }
inline Status ResourceExhaustedError(std::string message) {
  return {StatusCode::kResourceExhausted, std::move(message)};
}
inline Status UnauthenticatedError(std::string message) {
  return {StatusCode::kUnauthenticated, std::move(message)};
}
inline Status PermissionDeniedError(std::string message) {
  return {StatusCode::kPermissionDenied, std::move(message)};
}
// Returns an internal error from errno: "{what}: {strerror}".
Status ErrnoError(std::string_view what, int error_number);

std::ostream& operator<<(std::ostream& out, const Status& status);

// Either a value, or the error status that explains its absence.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  // REQUIRES: !status.ok()
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {  // NOLINT: implicit by design
    BRAID_CHECK(!std::get<1>(state_).ok());
  }

  bool ok() const { return state_.index() == 0; }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }

  // REQUIRES: ok()
  T& value() & {
    BRAID_CHECK(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    BRAID_CHECK(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    BRAID_CHECK(ok());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace braid

#define BRAID_CONCAT_INNER(a, b) a##b
#define BRAID_CONCAT(a, b) BRAID_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expression` (a Status) is an error.
#define BRAID_RETURN_IF_ERROR(expression)                                    \
  do {                                                                       \
    if (::braid::Status braid_status_ = (expression); !braid_status_.ok()) { \
      return braid_status_;                                                  \
    }                                                                        \
  } while (false)

// BRAID_ASSIGN_OR_RETURN(auto x, F()): takes the value of a Result, or returns its status from the enclosing
// function.
#define BRAID_ASSIGN_OR_RETURN(declaration, expression) \
  BRAID_ASSIGN_OR_RETURN_IMPL(BRAID_CONCAT(braid_result_, __LINE__), declaration, expression)
#define BRAID_ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                        \
  if (!result.ok()) return result.status();                          \
  declaration = std::move(result).value()
