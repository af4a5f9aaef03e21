#include "protocols/grpc/message.h"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/memory_use.h"

namespace braid {
namespace {

class TextOwner final : public BufferOwner {
 public:
  explicit TextOwner(std::string its_text) : text(std::move(its_text)), charge_(text.capacity()) {}

  std::string text;

 private:
  const MemoryCharge charge_;
};

}  // namespace

Buffer HeapBuffer(size_t size) {
  Result<Buffer> made = HeapAllocator().Allocate(size);
  if (!made.ok()) throw std::bad_alloc();
  return *std::move(made);
}

void EncodedMessage::AddPrefix() {
  const char prefix[kGrpcPrefixBytes] = {static_cast<char>(compressed ? 1 : 0), static_cast<char>(size >> 24),
                                         static_cast<char>(size >> 16), static_cast<char>(size >> 8),
                                         static_cast<char>(size)};
  if (begin < kGrpcPrefixBytes) {
    const size_t more = kGrpcPrefixBytes - begin;
    text.insert(0, more, '\0');
    for (Reference& reference : references) reference.position += more;
    begin += more;
  }
  begin -= kGrpcPrefixBytes;
  text.replace(begin, kGrpcPrefixBytes, prefix, kGrpcPrefixBytes);
  size += kGrpcPrefixBytes;
}

Status EncodedMessage::CompressBy(ContentCoding coding, int level) {
  std::vector<std::string_view> parts;
  const std::string_view whole = text;
  size_t at = begin;
  for (const Reference& reference : references) {
    parts.push_back(whole.substr(at, reference.position - at));
    parts.push_back(reference.bytes.text());
    at = reference.position;
  }
  parts.push_back(whole.substr(at));
  BRAID_ASSIGN_OR_RETURN(std::string smaller, Compress(coding, parts, level));
  if (smaller.size() >= size) return OkStatus();
  text.assign(kGrpcPrefixBytes, '\0');
  text += smaller;
  begin = kGrpcPrefixBytes;
  references.clear();
  size = smaller.size();
  compressed = true;
  return OkStatus();
}

Result<GrpcMessage> Decompress(const GrpcMessage& message, size_t limit) {
  Decompressor decompressor;
  std::string bytes;
  for (const std::string_view piece : message.segments()) {
    if (Status status = decompressor.Append(piece, bytes, limit); !status.ok()) {
      if (!decompressor.too_large()) return status;
      return ResourceExhaustedError("Decompressed message larger than max (" + std::to_string(limit) +
                                    "). Use --grpc-max-input-size to increase the limit.");
    }
  }
  if (!decompressor.finished()) return InvalidArgumentError("incomplete compressed request message");
  auto owner = std::make_unique<TextOwner>(std::move(bytes));
  GrpcMessage whole;
  auto* const data = reinterpret_cast<std::byte*>(owner->text.data());
  const size_t size = owner->text.size();
  whole.Add(Buffer(data, size, owner.release()));
  return whole;
}

void EncodedMessageReader::Take(size_t bytes, OutgoingBytes& to) {
  left_ -= bytes;
  while (bytes > 0) {
    const bool referenced = reference_ < message_.references.size();
    const size_t text_end = referenced ? message_.references[reference_].position : message_.text.size();
    if (const size_t part = std::min(bytes, text_end - at_); part > 0) {
      to.Append(std::string_view(message_.text).substr(at_, part));
      at_ += part;
      bytes -= part;
      continue;
    }
    const Buffer& tensor = message_.references[reference_].bytes;
    const size_t part = std::min(bytes, tensor.size() - offset_);
    to.Refer(tensor.Slice(offset_, part));
    offset_ += part;
    bytes -= part;
    if (offset_ == tensor.size()) {
      ++reference_;
      offset_ = 0;
    }
  }
}

}  // namespace braid
