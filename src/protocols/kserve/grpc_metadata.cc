#include "protocols/kserve/grpc_metadata.h"

#include <re2/re2.h>

#include <algorithm>
#include <cctype>

#include "base/utf8.h"
#include "protocols/kserve/grpc_request_builder.h"
#include "protocols/kserve/reserved_parameters.h"
#include "protocols/kserve/sequence_naming.h"
#include "serving/sequence_inputs.h"

namespace braid {
namespace {

constexpr std::string_view kRestrictedPrefix = "triton-grpc-protocol-";

std::string_view View(grpc::string_ref text) { return {text.data(), text.size()}; }

}  // namespace

GrpcMetadataRules::GrpcMetadataRules() = default;
GrpcMetadataRules::~GrpcMetadataRules() = default;

Result<std::unique_ptr<GrpcMetadataRules>> GrpcMetadataRules::Create(const AccessPolicy& access,
                                                                     const std::string& forward_pattern) {
  std::unique_ptr<GrpcMetadataRules> rules(new GrpcMetadataRules());
  for (int i = 0; i < kApiCount; ++i) {
    const AccessPolicy::Restriction* restriction = access.restriction(static_cast<Api>(i));
    if (restriction == nullptr) continue;
    Requirement& requirement = rules->requirements_[static_cast<size_t>(i)];
    requirement.header = std::string(kRestrictedPrefix) + restriction->header;
    // Keys of gRPC's metadata are lower case on the wire.
    std::transform(requirement.header.begin(), requirement.header.end(), requirement.header.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    requirement.value = restriction->value;
  }
  if (!forward_pattern.empty()) {
    re2::RE2::Options options;
    options.set_case_sensitive(false);
    options.set_log_errors(false);
    rules->forward_pattern_ = std::make_unique<re2::RE2>(forward_pattern, options);
    if (!rules->forward_pattern_->ok()) {
      return InvalidArgumentError("invalid header forward pattern '" + forward_pattern +
                                  "': " + rules->forward_pattern_->error());
    }
  }
  return rules;
}

Status GrpcMetadataRules::CheckAccess(Api api, const grpc::ServerContextBase& context) const {
  const Requirement& requirement = requirements_[static_cast<size_t>(api)];
  if (requirement.header.empty()) return OkStatus();
  const auto [begin, end] = context.client_metadata().equal_range(grpc::string_ref(requirement.header));
  for (auto it = begin; it != end; ++it) {
    if (AccessPolicy::SameSecret(View(it->second), requirement.value)) return OkStatus();
  }
  return UnavailableError("This protocol is restricted, expecting header '" + requirement.header + "'");
}

Result<Parameters> GrpcMetadataRules::ForwardedHeaders(const grpc::ServerContextBase& context) const {
  Parameters parameters;
  if (forward_pattern_ == nullptr) return parameters;
  for (const auto& [key, value] : context.client_metadata()) {
    if (!re2::RE2::FullMatch(re2::StringPiece(key.data(), key.size()), *forward_pattern_)) continue;
    if (IsReservedParameter(View(key))) {
      return InvalidArgumentError("Header '" + std::string(View(key)) +
                                  "' is reserved for Triton usage and cannot be forwarded.");
    }
    // Parameters are text; the value of a binary header may be none.
    if (!IsUtf8(View(value))) continue;
    parameters.emplace_back(std::string(View(key)), std::string(View(value)));
  }
  return parameters;
}

std::string_view GrpcMetadataRules::Header(const grpc::ServerContextBase& context, const char* name) {
  const auto found = context.client_metadata().find(name);
  return found == context.client_metadata().end() ? std::string_view() : View(found->second);
}

Result<std::string_view> GrpcMetadataRules::SequenceHeader(const ServableInfo& info,
                                                           const grpc::ServerContextBase& context) {
  if (!HasSequences(info)) return std::string_view();
  const auto [begin, end] = context.client_metadata().equal_range(
      grpc::string_ref(kSequenceIdHeader.data(), kSequenceIdHeader.size()));
  if (begin == end) return std::string_view();
  const std::string_view value = View(begin->second);
  if (!IsUtf8(value)) {
    return InvalidArgumentError("the header " + std::string(kSequenceIdHeader) + " must be UTF-8");
  }
  const bool same = std::all_of(begin, end, [&](const auto& entry) { return View(entry.second) == value; });
  return same ? Result<std::string_view>(value) : RepeatedSequenceHeader();
}

bool GrpcMetadataRules::WantsGrpcErrors(const grpc::ServerContextBase& context) {
  const auto [begin, end] = context.client_metadata().equal_range("triton_grpc_error");
  return std::any_of(begin, end, [](const auto& entry) { return View(entry.second) == "true"; });
}

}  // namespace braid
