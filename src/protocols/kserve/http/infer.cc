#include "protocols/kserve/http/infer.h"

#include <charconv>

#include "base/utf8.h"
#include "protocols/inference/dialect.h"
#include "protocols/inference/request_headers.h"

namespace braid {
namespace {

Status Compress(ContentCoding coding, HttpResponse& response) {
  std::vector<std::string_view> parts = {response.body};
  for (const Buffer& buffer : response.tail) parts.push_back(buffer.text());
  BRAID_ASSIGN_OR_RETURN(response.body, Compress(coding, parts));
  response.tail.clear();
  response.headers.emplace_back("Content-Encoding", ContentCodingName(coding));
  return OkStatus();
}

Status RangeError(uint64_t size, std::string_view text) {
  return InvalidArgumentError("inference header size should be in range (0, " + std::to_string(size) +
                              "), got: " + Shortened(text));
}

}  // namespace

Result<std::optional<uint64_t>> InferCall::JsonSize(const HttpExchange& exchange, const DialectRules& rules) {
  const auto text = FindHeader(exchange.head(), "Inference-Header-Content-Length");
  if (!text) return std::optional<uint64_t>();
  int64_t size = 0;
  const char* end = text->data() + text->size();
  auto [rest, error] = std::from_chars(text->data(), end, size);
  if (error != std::errc() || rest != end) {
    return rules.Word(
        Fault::kRestHeaderLengthInvalid,
        InvalidArgumentError("Unable to parse Inference-Header-Content-Length, got: " + std::string(*text)));
  }
  const auto body_size = exchange.body_size();
  if (size < 0 || (body_size && static_cast<uint64_t>(size) > *body_size)) {
    return rules.Word(size < 0 ? Fault::kRestHeaderLengthInvalid : Fault::kRestHeaderLengthExceeded,
                      RangeError(body_size.value_or(0), *text));
  }
  return std::optional<uint64_t>(static_cast<uint64_t>(size));
}

size_t InferCall::front_bytes() const {
  return body_.json_size ? static_cast<size_t>(*body_.json_size) : kWholeBody;
}

Status InferCall::ReadFront(std::string_view front, size_t rest, const HttpInferTarget& target,
                            simdjson::dom::parser& parser, HttpInferRequest& read) {
  const DialectRules& rules = RulesOf(target.info);
  if (body_.json_size && front.size() < *body_.json_size) {
    return rules.Word(Fault::kRestHeaderLengthExceeded,
                      RangeError(front.size(), std::to_string(*body_.json_size)));
  }
  if (!front.empty()) {
    return ReadInferRequest(front, rest, body_.json_size.has_value(), target, parser, read);
  }
  // Raw bytes can be interpreted only for models.
  const bool graph = target.info.kind == ServableKind::kGraph;
  if (graph || (rules.data_may_be_missing && !body_.json_size)) {
    return FaultError(Fault::kJsonInvalid, "The document is empty.");
  }
  return ReadRawInferRequest(rest, target, read);
}

Status InferCall::Read(std::string_view front, size_t rest, std::vector<std::span<std::byte>>& destinations,
                       simdjson::dom::parser& parser, InferenceRequest& request) {
  const ServableInfo& info = servable().info();
  BRAID_ASSIGN_OR_RETURN(sequence_header_, SequenceHeader(info, exchange().head()));
  const ClientRegions regions = body_.client_memory == nullptr
                                    ? ClientRegions()
                                    : ClientRegions(*body_.client_memory, body_.authorization, info.name);
  const HttpInferTarget target{info, servable().input_allocator(), body_.max_input_bytes, regions,
                               sequence_header_};
  HttpInferRequest read{request, {}, {}, {}};
  BRAID_RETURN_IF_ERROR(ReadFront(front, rest, target, parser, read));
  destinations = std::move(read.destinations);
  format_ = std::move(read.format);
  sequence_ = std::move(read.sequence);
  id_ = request.id;
  return OkStatus();
}

Status InferCall::ReadRest(InferenceRequest& request) {
  return sequence_ ? sequence_->Name(sequence_header_, request) : OkStatus();
}

bool InferCall::IsSlow(const InferenceResponse& response) const {
  return body_.response_coding != ContentCoding::kIdentity ||
         JsonOutputBytes(response, format_) > kMaxInlineJsonBytes;
}

Result<HttpResponse> InferCall::Write(InferenceResponse response) {
  BRAID_ASSIGN_OR_RETURN(HttpResponse answer, WriteInferResponse(id_, std::move(response), format_));
  if (body_.response_coding != ContentCoding::kIdentity) {
    BRAID_RETURN_IF_ERROR(Compress(body_.response_coding, answer));
  }
  return answer;
}

}  // namespace braid
