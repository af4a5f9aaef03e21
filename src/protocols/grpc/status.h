// How a Status is written on gRPC's wire.
#pragma once

#include <grpcpp/support/status.h>

#include "base/status.h"

namespace braid {

// The code by its table, the message alone as details.
grpc::Status ToGrpcStatus(const Status& status) noexcept;

}  // namespace braid
