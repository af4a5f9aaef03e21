// DataType: the element types of tensors, with their names on the wire ("FP32") and in configurations
// ("TYPE_FP32").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace braid {

// The numbers are those of inference.DataType in the model configuration. They are sent between processes.
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
  // A user-defined type, for graphs only. Tensor::custom_type has its name, and the format of its bytes is
  // unknown.
  kCustom = 15,
};
// The number of types with a known format, kCustom excluded.
inline constexpr uint8_t kDataTypeCount = 15;

// Returns the bytes of one element; 0 for kBytes and kCustom (variable) and kInvalid.
size_t ElementSize(DataType type);
// Returns "BOOL", "UINT8", ..., "BYTES", "BF16"; "INVALID"; or "CUSTOM" (for the tensor's name, see
// TypeName()).
std::string_view WireName(DataType type);
// The inverse of WireName(). Returns nullopt for an unknown name, "INVALID" and "CUSTOM".
std::optional<DataType> DataTypeFromWireName(std::string_view name);
// Returns "TYPE_BOOL", ..., "TYPE_STRING".
std::string_view ConfigName(DataType type);

}  // namespace braid
