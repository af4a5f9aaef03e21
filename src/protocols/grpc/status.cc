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
  const std::string mark = "... (" + std::to_string(text.size()) + " bytes)";
  // A character has at least one byte.
  const std::string plain = ToUtf8(text.substr(0, kMostGrpcMessage + 1));
  std::string encoded;
  size_t with_mark = 0;  // size of `encoded` that leaves room for the mark
  for (size_t at = 0; at < plain.size(); ++at) {
    const auto byte = static_cast<unsigned char>(plain[at]);
    const bool begins = (byte & 0xc0u) != 0x80u;
    if (begins && encoded.size() + mark.size() <= kMostGrpcMessage) with_mark = encoded.size();
    // HTTP/2 forbids blanks at the ends of a value. Some clients, such as Node, drop such a field.
    const bool is_outer_blank = byte == ' ' && (at == 0 || at + 1 == plain.size());
    if (byte >= 0x20 && byte <= 0x7e && byte != '%' && !is_outer_blank) {
      encoded += plain[at];
    } else {
      encoded += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
    if (encoded.size() > kMostGrpcMessage) return encoded.substr(0, with_mark) + mark;
  }
  return encoded;
}

}  // namespace braid
