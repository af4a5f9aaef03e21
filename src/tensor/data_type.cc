#include "tensor/data_type.h"

#include <array>

namespace braid {
namespace {

struct TypeInfo {
  std::string_view wire_name;
  std::string_view config_name;
  size_t size;
};

// Indexed by DataType.
constexpr std::array<TypeInfo, kDataTypeCount + 1> kTypes = {{
    {"INVALID", "TYPE_INVALID", 0},
    {"BOOL", "TYPE_BOOL", 1},
    {"UINT8", "TYPE_UINT8", 1},
    {"UINT16", "TYPE_UINT16", 2},
    {"UINT32", "TYPE_UINT32", 4},
    {"UINT64", "TYPE_UINT64", 8},
    {"INT8", "TYPE_INT8", 1},
    {"INT16", "TYPE_INT16", 2},
    {"INT32", "TYPE_INT32", 4},
    {"INT64", "TYPE_INT64", 8},
    {"FP16", "TYPE_FP16", 2},
    {"FP32", "TYPE_FP32", 4},
    {"FP64", "TYPE_FP64", 8},
    {"BYTES", "TYPE_STRING", 0},
    {"BF16", "TYPE_BF16", 2},
    {"CUSTOM", "TYPE_CUSTOM", 0},
}};

const TypeInfo& Info(DataType type) {
  auto index = static_cast<size_t>(type);
  return kTypes[index < kTypes.size() ? index : 0];
}

}  // namespace

size_t ElementSize(DataType type) { return Info(type).size; }
std::string_view WireName(DataType type) { return Info(type).wire_name; }
std::string_view ConfigName(DataType type) { return Info(type).config_name; }

std::optional<DataType> DataTypeFromWireName(std::string_view name) {
  for (size_t i = 1; i < kDataTypeCount; ++i) {
    if (kTypes[i].wire_name == name) return static_cast<DataType>(i);
  }
  return std::nullopt;
}

}  // namespace braid
