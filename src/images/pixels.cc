#include "images/pixels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace braid {
namespace {

template <class Number>
void Cast(const uint8_t* pixels, size_t count, std::byte* to) {
  auto* numbers = reinterpret_cast<Number*>(to);
  for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<Number>(pixels[i]);
}

// Both 16-bit types hold numbers below 256 exactly, so the bits after the mantissa are zeros.
uint16_t Half(uint8_t pixel) {
  if (pixel == 0) return 0;
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(pixel));
  const uint32_t exponent = (bits >> 23) - 127 + 15;
  return static_cast<uint16_t>(exponent << 10 | (bits >> 13 & 0x3ff));
}
uint16_t Brain(uint8_t pixel) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(pixel)) >> 16);
}

void Look(const uint8_t* pixels, size_t count, uint16_t (*number)(uint8_t), std::byte* to) {
  std::array<uint16_t, 256> table;
  for (size_t i = 0; i < table.size(); ++i) table[i] = number(static_cast<uint8_t>(i));
  auto* numbers = reinterpret_cast<uint16_t*>(to);
  for (size_t i = 0; i < count; ++i) numbers[i] = table[pixels[i]];
}

}  // namespace

bool HoldsPixels(DataType type) {
  return type != DataType::kInvalid && type != DataType::kBool && type != DataType::kBytes;
}

void ConvertPixels(const uint8_t* pixels, size_t count, DataType type, std::byte* to) {
  switch (type) {
    case DataType::kUint8:
      std::memcpy(to, pixels, count);
      return;
    case DataType::kInt8:
      for (size_t i = 0; i < count; ++i) to[i] = static_cast<std::byte>(std::min<uint8_t>(pixels[i], 127));
      return;
    case DataType::kUint16:
    case DataType::kInt16:
      return Cast<uint16_t>(pixels, count, to);
    case DataType::kUint32:
    case DataType::kInt32:
      return Cast<uint32_t>(pixels, count, to);
    case DataType::kUint64:
    case DataType::kInt64:
      return Cast<uint64_t>(pixels, count, to);
    case DataType::kFp32:
      return Cast<float>(pixels, count, to);
    case DataType::kFp64:
      return Cast<double>(pixels, count, to);
    case DataType::kFp16:
      return Look(pixels, count, Half, to);
    case DataType::kBf16:
      return Look(pixels, count, Brain, to);
    case DataType::kInvalid:
    case DataType::kBool:
    case DataType::kCustom:
    case DataType::kBytes:
      break;
  }
  BRAID_CHECK(false);
}

}  // namespace braid
