#include "protocols/kserve/http/sequence.h"

namespace braid {
namespace {

std::optional<SequenceInput> WithValue(const HttpSequenceInput& from, uint64_t value) {
  std::optional<SequenceInput> input = from.input;
  if (from.part) input->value = value;
  return input;
}

}  // namespace

void HttpBinarySequence::SetDestinations(std::vector<std::span<std::byte>>& destinations) {
  if (id_.part) destinations[*id_.part] = std::as_writable_bytes(std::span(&id_bytes_, 1));
  if (control_.part) destinations[*control_.part] = std::as_writable_bytes(std::span(&control_bytes_, 1));
}

Status HttpBinarySequence::Check() const {
  // Assumes a valid start with any id, since the values have not arrived yet.
  InferenceRequest nothing_else;
  return NameSequence(WithValue(id_, 1), WithValue(control_, 1), nothing_else);
}

Status HttpBinarySequence::Name(std::string_view header, InferenceRequest& request) const {
  return NameSequence(WithValue(id_, id_bytes_), WithValue(control_, control_bytes_), header, false, request);
}

}  // namespace braid
