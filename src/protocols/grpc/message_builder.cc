#include "protocols/grpc/message_builder.h"

namespace braid {

void GrpcMessageBuilder::Wrap(std::string_view before, uint32_t field) {
  std::string prefix(before);
  prefix += static_cast<char>(field << 3 | static_cast<uint32_t>(WireType::kBytes));
  uint64_t length = size();
  for (; length >= 0x80; length >>= 7) prefix += static_cast<char>(length | 0x80);
  prefix += static_cast<char>(length);
  if (prefix.size() <= start_) {
    start_ -= prefix.size();
    head_.replace(start_, prefix.size(), prefix);
  } else {
    const size_t more = prefix.size() - start_;
    head_.replace(0, start_, prefix);
    start_ = 0;
    for (EncodedMessage::Reference& reference : references_) reference.position += more;
  }
}

EncodedMessage GrpcMessageBuilder::Build() {
  const size_t whole = size();
  return {std::move(head_), start_, std::move(references_), whole};
}

}  // namespace braid
