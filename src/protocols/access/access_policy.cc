#include "protocols/access/access_policy.h"

#include <algorithm>
#include <cctype>

#include "protocols/access/access_files.h"

namespace braid {
namespace {

// Returns the contract's word for a restricted API.
std::string_view KindOf(AccessPolicy::Wire wire) {
  return wire == AccessPolicy::Wire::kHttp ? "api" : "protocol";
}

std::string HeaderOf(AccessPolicy::Wire wire, std::string_view key) {
  if (wire == AccessPolicy::Wire::kHttp) return std::string(key);
  std::string header = "triton-grpc-protocol-" + std::string(key);
  // Keys of gRPC metadata are in lower case on the wire.
  std::ranges::transform(header, header.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return header;
}

}  // namespace

Status AccessPolicy::AddRestriction(std::string_view flag_value) {
  const std::string what(KindOf(wire_));
  const std::string kind = "restricted " + what;
  const size_t colon = flag_value.find(':');
  const size_t equals = colon == std::string_view::npos ? colon : flag_value.find('=', colon + 1);
  if (equals == std::string_view::npos || equals == colon + 1 || equals + 1 == flag_value.size()) {
    return InvalidArgumentError("a " + kind + " must have the form '{" + what + "},...:{key}={value}'");
  }
  const Restriction restriction{HeaderOf(wire_, flag_value.substr(colon + 1, equals - colon - 1)),
                                std::string(flag_value.substr(equals + 1))};
  // The whole flag is checked before any part of it takes effect.
  auto changed = restrictions_;
  std::string_view names = flag_value.substr(0, colon);
  while (true) {
    const size_t comma = names.find(',');
    const std::string_view name = names.substr(0, comma);
    const std::optional<Api> api = ApiFromName(name);
    if (!api) return InvalidArgumentError("unknown " + kind + " '" + std::string(name) + "'");
    auto& entry = changed[static_cast<size_t>(*api)];
    if (entry) {
      return InvalidArgumentError(kind + " '" + std::string(name) +
                                  "' can not be specified in multiple config groups");
    }
    entry = restriction;
    if (comma == std::string_view::npos) break;
    names.remove_prefix(comma + 1);
  }
  restrictions_ = std::move(changed);
  return OkStatus();
}

Status AccessPolicy::AddRestrictionsOf(const std::string& file) {
  BRAID_ASSIGN_OR_RETURN(const std::string text, ReadAccessFile("file of restricted groups", file));
  return ForEachLine(text, [this](std::string_view line) { return AddRestriction(line); })
      .WithPrefix("the file of restricted groups '" + file + "': ");
}

std::vector<std::string> AccessPolicy::SecretHeaders() const {
  std::vector<std::string> headers;
  for (const auto& restriction : restrictions_) {
    if (restriction) headers.push_back(restriction->header);
  }
  return headers;
}

Status AccessPolicy::CheckPort(const Sender& sender, Api api) const {
  if (!serves(api)) {
    return PermissionDeniedError("the API '" + std::string(ApiName(api)) + "' is not served at this port");
  }
  const auto& restriction = restrictions_[static_cast<size_t>(api)];
  if (!restriction || sender.Shows(restriction->header, restriction->value)) return OkStatus();
  const bool http = wire_ == Wire::kHttp;
  std::string text = http ? "This API" : "This protocol";
  text += " is restricted, expecting header '" + restriction->header + "'";
  return http ? PermissionDeniedError(std::move(text)) : UnavailableError(std::move(text));
}

Status AccessPolicy::Check(AccessReader& reader, const Sender& sender, const Rights::Subject& subject) const {
  BRAID_RETURN_IF_ERROR(CheckPort(sender, subject.api));
  return reader.Check(sender.credentials(), subject);
}

Result<Authorization> AccessPolicy::Authorize(AccessReader& reader, const Sender& sender,
                                              const Rights::Subject& subject) const {
  BRAID_RETURN_IF_ERROR(CheckPort(sender, subject.api));
  return reader.Authorize(sender.credentials(), subject);
}

bool AccessPolicy::Allows(AccessReader& reader, const Sender& sender, const Rights::Subject& subject) const {
  return CheckPort(sender, subject.api).ok() && reader.Allows(sender.credentials(), subject);
}

bool AccessPolicy::SameSecret(std::string_view a, std::string_view b) {
  // The length is not secret. Every character is compared, even after a difference.
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(
        difference | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i])));
  }
  return difference == 0;
}

}  // namespace braid
