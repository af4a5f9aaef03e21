// Conversions between OpenVINO's element types and shapes and the server's.
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

// Returns nullopt for types that no client can send: those of less than a byte, and float8.
std::optional<DataType> FromElementType(const ov::element::Type& type);
ov::element::Type ToElementType(DataType type);

// Returns the type of a name in settings: "FP32", "U8", "INT8", "I64", "BOOL", "STRING", ... in any case.
// Returns nullopt for an unknown name.
std::optional<ov::element::Type> ElementTypeByName(std::string_view name);

// Returns the name in configurations, such as "TYPE_FP32"; OpenVINO's name for types that configurations
// lack.
std::string ConfigTypeName(const ov::element::Type& type);

// Returns a shape as clients see it: -1 where a dimension is dynamic. REQUIRES: the rank is known.
Shape FromPartialShape(const ov::PartialShape& shape);
// Returns the ranges of the dimensions; empty when each dynamic one is unbounded. REQUIRES: the rank is
// known.
std::vector<DimensionRange> RangesOf(const ov::PartialShape& shape);

ov::Dimension ToDimension(const DimensionRange& range);

// Returns the shape as settings write it: "(1,3,-1,1:8)".
std::string ToSettingText(const ov::PartialShape& shape);

}  // namespace braid
