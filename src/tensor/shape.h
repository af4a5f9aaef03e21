// Shapes and the checked arithmetic on them.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tensor/data_type.h"

namespace braid {

// Dimensions, outermost first. In a specification -1 stands for any size; in a tensor every dimension is >=
// 0.
using Shape = boost::container::small_vector<int64_t, 6>;

// Product of the dimensions; nothing when one is negative or the product leaves int64. An empty shape has one
// element.
std::optional<int64_t> ElementCount(const Shape& shape);

// Bytes of a tensor of fixed-size elements; nothing on overflow, a negative dimension, or kBytes.
std::optional<size_t> ByteSize(DataType type, const Shape& shape);

// "[2,-1,4]".
std::string ShapeToString(const Shape& shape);

// Whether a tensor of `actual` fits `expected`, whose -1 match anything.
bool ShapeMatches(const Shape& expected, const Shape& actual);

}  // namespace braid
