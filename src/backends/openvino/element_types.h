// OpenVINO's element types and shapes, and ours.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <openvino/openvino.hpp>

#include "serving/servable.h"
#include "tensor/data_type.h"
#include "tensor/shape.h"

namespace braid {

// Nothing for types that no client can send: those of less than a byte, and float8.
std::optional<DataType> FromElementType(const ov::element::Type& type);
ov::element::Type ToElementType(DataType type);

// By the name that settings use: "FP32", "U8", "INT8", "I64", "BOOL", "STRING", ... in any case. Nothing for
// an unknown one.
std::optional<ov::element::Type> ElementTypeByName(std::string_view name);

// "TYPE_FP32", as configurations write it; of a type that they have no word for, OpenVINO's.
std::string ConfigTypeName(const ov::element::Type& type);

// A shape as clients see it: -1 where a dimension is dynamic. REQUIRES: the rank is known.
Shape FromPartialShape(const ov::PartialShape& shape);
// What the dimensions may be; empty when each dynamic one may be anything. REQUIRES: the rank is known.
std::vector<DimensionRange> RangesOf(const ov::PartialShape& shape);

ov::Dimension ToDimension(const DimensionRange& range);

// "(1,3,-1,1:8)", as settings are written.
std::string ToSettingText(const ov::PartialShape& shape);

}  // namespace braid
