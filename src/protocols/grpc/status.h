// Codes and texts of gRPC's trailers.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace braid {

// Codes that end calls without a response of a servable.
inline constexpr int kGrpcDeadlineExceeded = 4;
inline constexpr int kGrpcResourceExhausted = 8;
inline constexpr int kGrpcInternal = 13;

// Sent with kGrpcResourceExhausted if the server is overloaded, like Retry-After over HTTP. The value is the
// time in milliseconds until the client may retry the call, which has not begun. Without it, the call itself
// is too large.
inline constexpr std::string_view kGrpcPushback = "grpc-retry-pushback-ms";
inline constexpr std::string_view kGrpcPushbackMs = "1000";

// Returns gRPC's number for the status.
int GrpcCodeOf(const Status& status);

// Returns `text` as the value of `grpc-message`: UTF-8, in which all but printable ASCII, and blanks at the
// ends, become "%XX" (gRPC over HTTP/2). A text larger than kMostGrpcMessage is cut between characters, with
// its size appended. Many clients refuse heads of more than 8 KiB. A call whose trailers nghttp2 refuses
// would never end.
inline constexpr size_t kMostGrpcMessage = 4096;
std::string PercentEncoded(std::string_view text);

}  // namespace braid
