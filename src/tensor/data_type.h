// The element types of tensors, with their names on the wire ("FP32") and in configurations ("TYPE_FP32").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace braid {

// The numbers are those of inference.DataType in the model configuration and travel between processes.
enum class DataType : uint8_t {
  kInvalid = 0,
  kBool = 1,
  kUint8 = 2,
  kUint16 = 3,
  kUint32 = 4,
  kUint64 = 5,
  kInt8 = 6,
  kInt16 = 7,
  kInt32 = 8,
  kInt64 = 9,
  kFp16 = 10,
  kFp32 = 11,
  kFp64 = 12,
  kBytes = 13,  // TYPE_STRING; each element is a little-endian uint32 length and that many bytes
  kBf16 = 14,
  // A type of users' own, for graphs alone: named by Tensor::custom_type, its bytes of no known form.
  kCustom = 15,
};
// Those with a form of their own, kCustom not among them.
inline constexpr uint8_t kDataTypeCount = 15;

// Bytes of one element; 0 for kBytes and kCustom (variable) and kInvalid.
size_t ElementSize(DataType type);
// "BOOL", "UINT8", ..., "BYTES", "BF16"; "INVALID"; "CUSTOM" (a tensor's own name: TypeName()).
std::string_view WireName(DataType type);
// The inverse; nothing for an unknown name, for "INVALID" and for "CUSTOM".
std::optional<DataType> DataTypeFromWireName(std::string_view name);
// "TYPE_BOOL", ..., "TYPE_STRING".
std::string_view ConfigName(DataType type);

}  // namespace braid
