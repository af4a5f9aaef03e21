#include "protocols/inference/request_headers.h"

#include <re2/re2.h>

#include <algorithm>

#include "base/utf8.h"
#include "protocols/grpc/metadata.h"
#include "protocols/inference/reserved_parameters.h"
#include "protocols/inference/sequence_naming.h"
#include "serving/sequence_inputs.h"

namespace braid {
namespace {

// `values`: a range of those of all headers of that name, as texts by `text`.
template <class Iterator, class Text>
Result<std::string_view> OneSequenceHeader(Iterator begin, Iterator end, Text text) {
  if (begin == end) return std::string_view();
  const std::string_view value = text(*begin);
  if (!IsUtf8(value)) {
    return InvalidArgumentError("the header " + std::string(kSequenceIdHeader) + " must be UTF-8");
  }
  if (std::all_of(begin, end, [&](const auto& header) { return text(header) == value; })) return value;
  return InvalidArgumentError("the header " + std::string(kSequenceIdHeader) +
                              " is there more than once, with different values");
}

}  // namespace

Result<HeaderForwarding> HeaderForwarding::Create(const std::string& pattern) {
  HeaderForwarding forwarding;
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

Result<bool> HeaderForwarding::Takes(std::string_view name) const {
  if (!re2::RE2::FullMatch(re2::StringPiece(name.data(), name.size()), *pattern_)) return false;
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

Status HeaderForwarding::Append(const grpc::ServerContextBase& context, Parameters& parameters) const {
  if (pattern_ == nullptr) return OkStatus();
  for (const auto& [key, value] : context.client_metadata()) {
    BRAID_ASSIGN_OR_RETURN(const bool takes, Takes(ToStd(key)));
    if (takes && IsUtf8(ToStd(value))) {
      parameters.emplace_back(std::string(ToStd(key)), std::string(ToStd(value)));
    }
  }
  return OkStatus();
}

Result<std::string_view> SequenceHeader(const ServableInfo& info, const HttpHead& head) {
  if (!HasSequences(info)) return std::string_view();
  const auto [begin, end] =
      head.equal_range(boost::core::string_view(kSequenceIdHeader.data(), kSequenceIdHeader.size()));
  return OneSequenceHeader(begin, end, [](const auto& field) { return ToStd(field.value()); });
}

Result<std::string_view> SequenceHeader(const ServableInfo& info, const grpc::ServerContextBase& context) {
  if (!HasSequences(info)) return std::string_view();
  const auto [begin, end] = context.client_metadata().equal_range(
      grpc::string_ref(kSequenceIdHeader.data(), kSequenceIdHeader.size()));
  return OneSequenceHeader(begin, end, [](const auto& entry) { return ToStd(entry.second); });
}

TraceOrigin TraceOriginOf(const HttpHead& head, int64_t received_ns) {
  return {TraceProtocol::kHttp, received_ns, FindHeader(head, "traceparent").value_or(""),
          FindHeader(head, "tracestate").value_or("")};
}

TraceOrigin TraceOriginOf(const grpc::ServerContextBase& context, int64_t received_ns) {
  return {TraceProtocol::kGrpc, received_ns, GrpcHeader(context, "traceparent"),
          GrpcHeader(context, "tracestate")};
}

}  // namespace braid
