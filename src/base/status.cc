#include "base/status.h"

#include <system_error>

namespace braid {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kUnknown:
      return "Unknown";
    case StatusCode::kInternal:
      return "Internal";
    case StatusCode::kNotFound:
      return "Not found";
    case StatusCode::kInvalidArgument:
      return "Invalid argument";
    case StatusCode::kUnavailable:
      return "Unavailable";
    case StatusCode::kUnsupported:
      return "Unsupported";
    case StatusCode::kAlreadyExists:
      return "Already exists";
    case StatusCode::kCancelled:
      return "Cancelled";
    case StatusCode::kFailedPrecondition:
      return "Failed precondition";
    case StatusCode::kAborted:
      return "Aborted";
    case StatusCode::kResourceExhausted:
      return "Resource exhausted";
    case StatusCode::kUnauthenticated:
      return "Unauthenticated";
    case StatusCode::kPermissionDenied:
      return "Permission denied";
  }
  return "Unknown";
}

const std::string& Status::message() const {
  static const std::string empty;
  return detail_ ? detail_->message : empty;
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  return std::string(StatusCodeName(code())) + ": " + message();
}

Status Status::WithMessage(std::string message) const {
  return ok() ? *this : Status(code(), std::move(message), fault());
}

Status Status::WithPrefix(std::string_view prefix) const {
  return WithMessage(std::string(prefix) + message());
}

Status ErrnoError(std::string_view what, int error_number) {
  return InternalError(std::string(what) + ": " + std::generic_category().message(error_number));
}

std::ostream& operator<<(std::ostream& out, const Status& status) { return out << status.ToString(); }

}  // namespace braid
