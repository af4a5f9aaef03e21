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

// Goes with kGrpcResourceExhausted where the server has too much to do, as Retry-After does over HTTP: milliseconds until the client may
// send the call again, which has not begun. Without it the call itself is too large.
inline constexpr std::string_view kGrpcPushback = "grpc-retry-pushback-ms";
inline constexpr std::string_view kGrpcPushbackMs = "1000";

// The number of gRPC for the status.
int GrpcCodeOf(const Status& status);

// As `grpc-message` carries it: UTF-8, with all but printable ASCII, and with blanks at the ends, as "%XX"
// (gRPC over HTTP/2). A text that would become larger than kMostGrpcMessage is cut between characters, with its size behind.
// Clients refuse heads of more than 8 KiB as a rule, and a call whose trailers nghttp2 refuses would never end.
inline constexpr size_t kMostGrpcMessage = 4096;
std::string PercentEncoded(std::string_view text);

}  // namespace braid
