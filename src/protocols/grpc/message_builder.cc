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
    for (Reference& reference : references_) reference.position += more;
  }
}

EncodedMessage GrpcMessageBuilder::Build() const {
  const grpc::Slice head(head_.data() + start_, head_.size() - start_);
  if (references_.empty()) return {&head, 1, size()};
  boost::container::small_vector<grpc::Slice, 8> slices;
  size_t from = 0;
  for (const Reference& reference : references_) {
    const size_t to = reference.position - start_;
    if (to > from) slices.push_back(head.sub(from, to));
    from = to;
    // gRPC may keep the slice after the call has ended; the share in the buffer goes with the slice.
    auto* share = new Buffer(reference.bytes);
    slices.emplace_back(
        const_cast<std::byte*>(share->data()), share->size(),
        [](void* held) { delete static_cast<Buffer*>(held); }, share);
  }
  if (head.size() > from) slices.push_back(head.sub(from, head.size()));
  return {slices.data(), slices.size(), size()};
}

}  // namespace braid
