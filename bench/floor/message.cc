#include "message.h"

#include <algorithm>
#include <cstring>

namespace braid::floor {
namespace {

constexpr size_t kPrefixBytes = 5;
constexpr uint64_t kRawInputContents = 7;
constexpr uint64_t kLengthDelimited = 2;
// A field other than a tensor is shorter than the bytes that are added to an incomplete one at a time.
constexpr size_t kStep = 64;

// Returns the number of bytes, or 0 if the number is not whole.
size_t ReadVarint(std::string_view bytes, uint64_t* value) {
  *value = 0;
  for (size_t k = 0; k < std::min<size_t>(bytes.size(), 10); ++k) {
    *value |= static_cast<uint64_t>(bytes[k] & 0x7f) << (7 * k);
    if ((bytes[k] & 0x80) == 0) return k + 1;
  }
  return 0;
}

size_t VarintSize(uint64_t value) {
  size_t size = 1;
  for (; value > 0x7f; value >>= 7) ++size;
  return size;
}

void AppendVarint(uint64_t value, std::string* text) {
  for (; value > 0x7f; value >>= 7) *text += static_cast<char>(value | 0x80);
  *text += static_cast<char>(value);
}

void AppendBytes(uint64_t field, std::string_view value, std::string* text) {
  AppendVarint(field << 3 | kLengthDelimited, text);
  AppendVarint(value.size(), text);
  *text += value;
}

uint64_t Elements(const Tensor& tensor) { return tensor.bytes / sizeof(float); }

// InferOutputTensor: name, datatype, shape.
std::string OutputOf(const Tensor& tensor, uint64_t number) {
  std::string text;
  AppendBytes(1, number == 0 ? "OUTPUT0" : "OUTPUT1", &text);
  AppendBytes(2, "FP32", &text);
  std::string shape;
  AppendVarint(Elements(tensor), &shape);
  AppendBytes(3, shape, &text);
  return text;
}

}  // namespace

MessageReader::Progress MessageReader::Read(std::string_view* bytes, Calls* calls, uint32_t* slot) {
  while (!bytes->empty()) {
    if (tensor_left_ > 0) {
      const size_t size = std::min<size_t>(bytes->size(), tensor_left_);
      std::memcpy(tensor_end_, bytes->data(), size);
      tensor_end_ += size;
      tensor_left_ -= size;
      bytes->remove_prefix(size);
    } else if (incomplete_.empty()) {
      const size_t size = ReadField(*bytes, calls, slot);
      if (size == 0 && !invalid_) {
        incomplete_ = *bytes;
        bytes->remove_prefix(bytes->size());
        return Progress::kNeedsMore;
      }
      bytes->remove_prefix(size);
    } else {
      const size_t before = incomplete_.size();
      const size_t step = std::min(bytes->size(), kStep);
      incomplete_ += bytes->substr(0, step);
      const size_t size = ReadField(incomplete_, calls, slot);
      bytes->remove_prefix(size == 0 ? step : size - before);
      if (size > 0) incomplete_.clear();
    }
    if (invalid_) return Progress::kInvalid;
    if (in_message_ && message_left_ == 0 && tensor_left_ == 0) {
      in_message_ = false;
      return Progress::kWhole;
    }
  }
  return Progress::kNeedsMore;
}

size_t MessageReader::ReadField(std::string_view bytes, Calls* calls, uint32_t* slot) {
  if (!in_message_) {
    if (bytes.size() < kPrefixBytes) return 0;
    message_left_ = 0;
    for (size_t k = 1; k < kPrefixBytes; ++k)
      message_left_ = message_left_ << 8 | static_cast<uint8_t>(bytes[k]);
    in_message_ = true;
    invalid_ = bytes[0] != 0 || message_left_ == 0;
    return kPrefixBytes;
  }
  uint64_t key = 0;
  uint64_t value = 0;
  const size_t key_size = ReadVarint(bytes, &key);
  const size_t value_size = key_size == 0 ? 0 : ReadVarint(bytes.substr(key_size), &value);
  if (value_size == 0) return 0;
  size_t size = key_size + value_size;
  if ((key & 7) == kLengthDelimited && key >> 3 == kRawInputContents) {
    if (*slot == kNoSlot) {
      *slot = calls->Take();
      calls->call(*slot).input_count = 0;
    }
    Call& call = calls->call(*slot);
    invalid_ =
        call.input_count == kTensors || value > kTensorBytes || value == 0 || size + value > message_left_;
    if (invalid_) return size;
    uint64_t at = 0;
    if (call.input_count > 0) at = Aligned(call.inputs[0].bytes);
    call.inputs[call.input_count++] = {at, value};
    tensor_end_ = calls->memory(*slot) + at;
    tensor_left_ = value;
    message_left_ -= size + value;
    return size;
  }
  if ((key & 7) == kLengthDelimited) {
    if (bytes.size() - size < value) return 0;
    size += value;
  }
  invalid_ = ((key & 7) != kLengthDelimited && (key & 7) != 0) || size > message_left_;
  message_left_ -= size;
  return size;
}

void AppendTensorKey(const Tensor& tensor, std::string* text) {
  AppendVarint(6 << 3 | kLengthDelimited, text);
  AppendVarint(tensor.bytes, text);
}

void AppendResponseHead(const Call& call, std::string_view model, bool stream, std::string* text) {
  std::string head;
  AppendBytes(1, model, &head);
  AppendBytes(2, "1", &head);
  uint64_t size = 0;
  for (uint64_t k = 0; k < call.output_count; ++k) {
    AppendBytes(5, OutputOf(call.outputs[k], k), &head);
    size += 1 + VarintSize(call.outputs[k].bytes) + call.outputs[k].bytes;
  }
  size += head.size();
  std::string outer;
  if (stream) {
    AppendVarint(2 << 3 | kLengthDelimited, &outer);
    AppendVarint(size, &outer);
  }
  size += outer.size();
  *text += '\0';
  for (int shift = 24; shift >= 0; shift -= 8) *text += static_cast<char>(size >> shift);
  *text += outer;
  *text += head;
}

}  // namespace braid::floor
