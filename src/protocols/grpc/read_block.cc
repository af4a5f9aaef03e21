#include "protocols/grpc/read_block.h"

#include "protocols/grpc/message.h"

namespace braid {

std::span<char> ReadBlock::Room() {
  if (block_.owner() != nullptr && block_.owner()->unique()) used_ = 0;
  if (block_.owner() == nullptr || bytes_ - used_ < bytes_ / 4) {
    block_ = HeapBuffer(bytes_);
    used_ = 0;
  }
  return {reinterpret_cast<char*>(block_.mutable_data()) + used_, bytes_ - used_};
}

}  // namespace braid
