#include "protocols/grpc/metadata.h"

#include <algorithm>
#include <cctype>

namespace braid {
namespace {

constexpr std::string_view kRestrictedPrefix = "triton-grpc-protocol-";

}  // namespace

GrpcAccess::GrpcAccess(const AccessPolicy& policy) {
  for (int i = 0; i < kApiCount; ++i) {
    const AccessPolicy::Restriction* restriction = policy.restriction(static_cast<Api>(i));
    if (restriction == nullptr) continue;
    Requirement& requirement = requirements_[static_cast<size_t>(i)];
    requirement.header = std::string(kRestrictedPrefix) + restriction->header;
    // Keys of gRPC's metadata are lower case on the wire.
    std::transform(requirement.header.begin(), requirement.header.end(), requirement.header.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    requirement.value = restriction->value;
  }
}

Status GrpcAccess::Check(Api api, const Http2Head& head) const {
  const Requirement& requirement = requirements_[static_cast<size_t>(api)];
  if (requirement.header.empty()) return OkStatus();
  const auto is_it = [&](std::string_view value) {
    return AccessPolicy::SameSecret(value, requirement.value);
  };
  if (head.Any(requirement.header, is_it)) return OkStatus();
  return UnavailableError("This protocol is restricted, expecting header '" + requirement.header + "'");
}

}  // namespace braid
