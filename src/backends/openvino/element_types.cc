#include "backends/openvino/element_types.h"

#include <algorithm>
#include <cctype>
#include <limits>

namespace braid {
namespace {

struct Row {
  DataType type;
  ov::element::Type_t element;
  std::string_view names[3];
};

constexpr Row kTypes[] = {
    {DataType::kBool, ov::element::Type_t::boolean, {"BOOL", "BOOLEAN", ""}},
    {DataType::kUint8, ov::element::Type_t::u8, {"U8", "UINT8", ""}},
    {DataType::kUint16, ov::element::Type_t::u16, {"U16", "UINT16", ""}},
    {DataType::kUint32, ov::element::Type_t::u32, {"U32", "UINT32", ""}},
    {DataType::kUint64, ov::element::Type_t::u64, {"U64", "UINT64", ""}},
    {DataType::kInt8, ov::element::Type_t::i8, {"I8", "INT8", ""}},
    {DataType::kInt16, ov::element::Type_t::i16, {"I16", "INT16", ""}},
    {DataType::kInt32, ov::element::Type_t::i32, {"I32", "INT32", ""}},
    {DataType::kInt64, ov::element::Type_t::i64, {"I64", "INT64", ""}},
    {DataType::kFp16, ov::element::Type_t::f16, {"FP16", "F16", ""}},
    {DataType::kFp32, ov::element::Type_t::f32, {"FP32", "F32", ""}},
    {DataType::kFp64, ov::element::Type_t::f64, {"FP64", "F64", ""}},
    {DataType::kBytes, ov::element::Type_t::string, {"STRING", "BYTES", ""}},
    {DataType::kBf16, ov::element::Type_t::bf16, {"BF16", "", ""}},
};

bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return std::toupper(static_cast<unsigned char>(x)) == std::toupper(static_cast<unsigned char>(y));
         });
}

}  // namespace

std::optional<DataType> FromElementType(const ov::element::Type& type) {
  for (const Row& row : kTypes) {
    if (type == ov::element::Type(row.element)) return row.type;
  }
  return std::nullopt;
}

std::string ConfigTypeName(const ov::element::Type& type) {
  const auto known = FromElementType(type);
  return known ? std::string(ConfigName(*known)) : type.get_type_name();
}

ov::element::Type ToElementType(DataType type) {
  for (const Row& row : kTypes) {
    if (row.type == type) return row.element;
  }
  return ov::element::dynamic;
}

std::optional<ov::element::Type> ElementTypeByName(std::string_view name) {
  for (const Row& row : kTypes) {
    for (std::string_view known : row.names) {
      if (!known.empty() && EqualIgnoringCase(known, name)) return ov::element::Type(row.element);
    }
  }
  return std::nullopt;
}

Shape FromPartialShape(const ov::PartialShape& shape) {
  Shape result;
  for (const ov::Dimension& dimension : shape) {
    result.push_back(dimension.is_static() ? dimension.get_length() : -1);
  }
  return result;
}

std::vector<DimensionRange> RangesOf(const ov::PartialShape& shape) {
  std::vector<DimensionRange> ranges;
  bool bounded = false;
  for (const ov::Dimension& dimension : shape) {
    const int64_t max = dimension.get_interval().has_upper_bound() ? dimension.get_max_length() : -1;
    ranges.push_back({dimension.get_min_length(), max});
    bounded = bounded || (dimension.is_dynamic() && (max >= 0 || dimension.get_min_length() > 0));
  }
  if (!bounded) ranges.clear();
  return ranges;
}

ov::Dimension ToDimension(const DimensionRange& range) {
  return range.max < 0 ? ov::Dimension(std::max<int64_t>(range.min, 0), -1)
                       : ov::Dimension(range.min, range.max);
}

std::string ToSettingText(const ov::PartialShape& shape) {
  std::string text = "(";
  for (const ov::Dimension& dimension : shape) {
    if (text.size() > 1) text += ',';
    if (dimension.is_static()) {
      text += std::to_string(dimension.get_length());
    } else if (dimension.get_interval().has_upper_bound()) {
      text += std::to_string(dimension.get_min_length()) + ":" + std::to_string(dimension.get_max_length());
    } else {
      text += "-1";
    }
  }
  return text + ")";
}

}  // namespace braid
