#include "protocols/grpc/status.h"

#include "base/utf8.h"

namespace braid {

int GrpcCodeOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return 0;
    case StatusCode::kCancelled:
      return 1;
    case StatusCode::kUnknown:
      return 2;
    case StatusCode::kInvalidArgument:
      return 3;
    case StatusCode::kNotFound:
      return 5;
    case StatusCode::kAlreadyExists:
      return 6;
    case StatusCode::kResourceExhausted:
      return kGrpcResourceExhausted;
    case StatusCode::kFailedPrecondition:
      return 9;
    case StatusCode::kAborted:
      return 10;
    case StatusCode::kUnsupported:
      return 12;
    case StatusCode::kInternal:
      return kGrpcInternal;
    case StatusCode::kUnavailable:
      return 14;
    case StatusCode::kUnauthenticated:
      return 16;
    case StatusCode::kPermissionDenied:
      return 7;
  }
  return 2;
}

std::string PercentEncoded(std::string_view text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : ToUtf8(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte <= 0x7e && c != '%') {
      encoded += c;
    } else {
      encoded += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return encoded;
}

}  // namespace braid
