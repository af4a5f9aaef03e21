#include "protocols/grpc/status.h"

#include "base/utf8.h"

namespace braid {
namespace {

grpc::StatusCode ToGrpcCode(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return grpc::StatusCode::OK;
    case StatusCode::kUnknown:
      return grpc::StatusCode::UNKNOWN;
    case StatusCode::kInternal:
      return grpc::StatusCode::INTERNAL;
    case StatusCode::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case StatusCode::kInvalidArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case StatusCode::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case StatusCode::kUnsupported:
      return grpc::StatusCode::UNIMPLEMENTED;
    case StatusCode::kAlreadyExists:
      return grpc::StatusCode::ALREADY_EXISTS;
    case StatusCode::kCancelled:
      return grpc::StatusCode::CANCELLED;
    case StatusCode::kFailedPrecondition:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case StatusCode::kAborted:
      return grpc::StatusCode::ABORTED;
    case StatusCode::kResourceExhausted:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
  }
  return grpc::StatusCode::UNKNOWN;
}

}  // namespace

grpc::Status ToGrpcStatus(const Status& status) noexcept {
  if (status.ok()) return grpc::Status::OK;
  try {
    return {ToGrpcCode(status.code()), ToUtf8(status.message())};
  } catch (...) {
    return {ToGrpcCode(status.code()), ""};
  }
}

}  // namespace braid
