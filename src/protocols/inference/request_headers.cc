#include "protocols/inference/request_headers.h"

#include <re2/re2.h>

#include <algorithm>

#include "base/utf8.h"
#include "protocols/inference/reserved_parameters.h"
#include "protocols/inference/sequence_naming.h"
#include "protocols/json/json.h"
#include "serving/sequence_inputs.h"

namespace braid {
namespace {

// `begin` and `end` are the range of all headers of that name. `text` converts one to its value.
template <class Iterator, class Text>
Result<std::string_view> OneSequenceHeader(Iterator begin, Iterator end, Text text) {
  if (begin == end) return std::string_view();
  const std::string_view value = text(*begin);
  if (!IsUtf8(value)) {
    return InvalidArgumentError("the header " + std::string(kSequenceIdHeader) + " must be UTF-8");
  }
  if (std::all_of(begin, end, [&](const auto& header) { return text(header) == value; })) return value;
  return InvalidArgumentError("the header " + std::string(kSequenceIdHeader) + " has different values");
}

// Whether a field belongs to HTTP/2 or gRPC itself, and not to the client's metadata.
bool BelongsToGrpc(std::string_view name) {
  return name.starts_with(':') || name.starts_with("grpc-") || name == "te" || name == "content-type" ||
         name == "content-length";
}

// Returns a value of metadata as the client set it. Names in "-bin" have base64 on the wire, padded or not.
Result<std::string> ValueOf(std::string_view name, std::string_view value) {
  if (!name.ends_with("-bin")) return std::string(value);
  std::string padded(value);
  padded.resize((padded.size() + 3) / 4 * 4, '=');
  if (auto decoded = DecodeBase64(padded)) return *std::move(decoded);
  return InvalidArgumentError("the metadata '" + std::string(name) + "' is not base64");
}

}  // namespace

Result<HeaderForwarding> HeaderForwarding::Create(const std::string& pattern,
                                                  std::vector<std::string> secrets) {
  HeaderForwarding forwarding;
  forwarding.withheld_ = std::move(secrets);
  if (pattern.empty()) return forwarding;
  re2::RE2::Options options;
  options.set_case_sensitive(false);
  options.set_log_errors(false);
  forwarding.pattern_ = std::make_shared<const re2::RE2>(pattern, options);
  if (!forwarding.pattern_->ok()) {
    return InvalidArgumentError("invalid header forward pattern '" + pattern +
                                "': " + forwarding.pattern_->error());
  }
  return forwarding;
}

bool HeaderForwarding::Withholds(std::string_view name) const {
  return SameText(name, "authorization") ||
         std::ranges::any_of(withheld_, [&](const std::string& secret) { return SameText(secret, name); });
}

Result<bool> HeaderForwarding::Takes(std::string_view name) const {
  if (!re2::RE2::FullMatch(re2::StringPiece(name.data(), name.size()), *pattern_)) return false;
  if (Withholds(name)) return false;
  if (!IsReservedParameter(name)) return true;
  return InvalidArgumentError("Header '" + std::string(name) +
                              "' is reserved for Triton usage and cannot be forwarded.");
}

Status HeaderForwarding::Append(const HttpHead& head, Parameters& parameters) const {
  if (pattern_ == nullptr) return OkStatus();
  for (const auto& field : head) {
    const std::string_view name = ToStd(field.name_string());
    BRAID_ASSIGN_OR_RETURN(const bool takes, Takes(name));
    if (takes) parameters.emplace_back(name, ToUtf8(ToStd(field.value())));
  }
  return OkStatus();
}

Status HeaderForwarding::Append(const Http2Head& head, Parameters& parameters) const {
  if (pattern_ == nullptr) return OkStatus();
  const auto first = static_cast<std::ptrdiff_t>(parameters.size());
  for (size_t i = 0; i < head.size(); ++i) {
    const auto [name, value] = head[i];
    if (BelongsToGrpc(name)) continue;
    BRAID_ASSIGN_OR_RETURN(const bool takes, Takes(name));
    if (!takes) continue;
    BRAID_ASSIGN_OR_RETURN(std::string given, ValueOf(name, value));
    if (IsUtf8(given)) parameters.emplace_back(name, std::move(given));
  }
  // Ordered by name, as gRPC's servers keep metadata.
  std::stable_sort(parameters.begin() + first, parameters.end(),
                   [](const auto& one, const auto& other) { return one.first < other.first; });
  return OkStatus();
}

Result<std::string_view> SequenceHeader(const ServableInfo& info, const HttpHead& head) {
  if (!HasSequences(info)) return std::string_view();
  const auto [begin, end] =
      head.equal_range(boost::core::string_view(kSequenceIdHeader.data(), kSequenceIdHeader.size()));
  return OneSequenceHeader(begin, end, [](const auto& field) { return ToStd(field.value()); });
}

Result<std::string_view> SequenceHeader(const ServableInfo& info, const Http2Head& head) {
  if (!HasSequences(info)) return std::string_view();
  boost::container::small_vector<std::string_view, 2> values;
  head.Any(kSequenceIdHeader, [&](std::string_view value) {
    values.push_back(value);
    return false;
  });
  return OneSequenceHeader(values.begin(), values.end(), [](std::string_view value) { return value; });
}

TraceOrigin TraceOriginOf(const HttpHead& head, int64_t received_ns) {
  return {TraceProtocol::kHttp, received_ns, FindHeader(head, "traceparent").value_or(""),
          FindHeader(head, "tracestate").value_or("")};
}

TraceOrigin TraceOriginOf(const Http2Head& head, int64_t received_ns) {
  return {TraceProtocol::kGrpc, received_ns, head.Find("traceparent"), head.Find("tracestate")};
}

}  // namespace braid
