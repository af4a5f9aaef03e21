// The codes and texts of gRPC's trailers.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace braid {

// Codes that end calls without an answer of a servable.
inline constexpr int kGrpcDeadlineExceeded = 4;
inline constexpr int kGrpcResourceExhausted = 8;
inline constexpr int kGrpcInternal = 13;

// The number of gRPC for the status.
int GrpcCodeOf(const Status& status);

// As `grpc-message` carries it: UTF-8, with all but printable ASCII, and with blanks at the ends, as "%XX"
// (gRPC over HTTP/2).
std::string PercentEncoded(std::string_view text);

}  // namespace braid
