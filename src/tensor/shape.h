// Shape: the dimensions of a tensor, with checked arithmetic.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tensor/data_type.h"

namespace braid {

// Dimensions, outermost first. In a specification, -1 stands for any size. In a tensor, every dimension is >=
// 0.
using Shape = boost::container::small_vector<int64_t, 6>;

// Returns the product of the dimensions; nullopt if one is negative or the product overflows int64. An empty
// shape has one element.
std::optional<int64_t> ElementCount(const Shape& shape);

// Returns the bytes of a tensor of fixed-size elements; nullopt on overflow, a negative dimension, or kBytes.
std::optional<size_t> ByteSize(DataType type, const Shape& shape);

// Returns "[2,-1,4]".
std::string ShapeToString(const Shape& shape);

// Whether a tensor of shape `actual` fits `expected`, in which -1 matches anything.
bool ShapeMatches(const Shape& expected, const Shape& actual);

// Makes a specification's shape that of a tensor with `count` elements. The batch dimension, if `batching`,
// becomes 1. A dimension of any size takes the remaining elements. If there are several, the last one takes
// them, and the others become 1. Returns false if the elements do not fit.
bool FitShape(Shape& shape, size_t count, bool batching);

}  // namespace braid
