#include "protocols/kserve/http_sequence.h"

#include <algorithm>
#include <string>

#include "base/utf8.h"
#include "protocols/kserve/sequence_naming.h"

namespace braid {
namespace {

std::optional<SequenceInput> WithValue(const HttpSequenceInput& from, uint64_t value) {
  std::optional<SequenceInput> input = from.input;
  if (from.part) input->value = value;
  return input;
}

}  // namespace

Result<std::string_view> HttpSequenceHeader(const ServableInfo& info, const HttpHead& head) {
  if (!HasSequences(info)) return std::string_view();
  const auto [begin, end] =
      head.equal_range(boost::core::string_view(kSequenceIdHeader.data(), kSequenceIdHeader.size()));
  if (begin == end) return std::string_view();
  const std::string_view value = ToStd(begin->value());
  if (!IsUtf8(value)) {
    return InvalidArgumentError("the header " + std::string(kSequenceIdHeader) + " must be UTF-8");
  }
  const bool same = std::all_of(begin, end, [&](const auto& field) { return ToStd(field.value()) == value; });
  return same ? Result<std::string_view>(value) : RepeatedSequenceHeader();
}

void HttpBinarySequence::SetDestinations(std::vector<std::span<std::byte>>& destinations) {
  if (id_.part) destinations[*id_.part] = std::as_writable_bytes(std::span(&id_bytes_, 1));
  if (control_.part) destinations[*control_.part] = std::as_writable_bytes(std::span(&control_bytes_, 1));
}

Status HttpBinarySequence::Check() const {
  // A start by any id, which is right as far as is known.
  InferenceRequest nothing_else;
  return NameSequence(WithValue(id_, 1), WithValue(control_, 1), nothing_else);
}

Status HttpBinarySequence::Name(std::string_view header, InferenceRequest& request) const {
  return NameSequence(WithValue(id_, id_bytes_), WithValue(control_, control_bytes_), header, false, request);
}

}  // namespace braid
