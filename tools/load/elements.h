// Elements of tensors: their sizes, generation, and conversion from and to JSON and text.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "load/tensor.h"

namespace braid::load {

// Returns the bytes of one element; 0 for BYTES, whose elements vary. Errors: not a datatype of KServe v2.
Result<size_t> ElementBytes(std::string_view datatype);

// Returns the datatype for JSON values of a tensor whose metadata has none: INT64, FP32, BOOL or BYTES.
std::string GuessDatatype(const Json& value);

// Returns the product of the dimensions. Errors: a negative dimension, or a product beyond 2^32.
Result<size_t> ElementCount(const std::vector<int64_t>& shape);

enum class Fill { kZero, kRandom };

struct FillOptions {
  Fill fill = Fill::kRandom;
  size_t string_length = 128;  // of random BYTES elements
  std::string string_data;     // the value of every BYTES element; empty: random
};

// Generates the bytes of a tensor. Random integers are small, floats lie in [0, 1), text has letters and
// digits.
Result<std::string> MakeElements(std::string_view datatype, const std::vector<int64_t>& shape,
                                 const FillOptions& options, std::mt19937_64& random);

// Appends one element of BYTES.
void AppendBytesElement(std::string_view element, std::string& data);

// Appends JSON values, in lists of any depth, as elements. Errors: a value that the datatype cannot hold.
Status AppendJsonElements(const Json& value, std::string_view datatype, std::string& data);

// Calls visit(index, text) for the first `most` elements, each as JSON writes it. Text is quoted, and invalid
// UTF-8 is replaced. Skips an element that is cut off at the end of the data.
void VisitElements(std::string_view datatype, std::string_view data, size_t most,
                   const std::function<void(size_t, const std::string&)>& visit);

// Returns all elements as one JSON list for a request body. FP16 and BF16 are written as numbers.
std::string JsonElements(std::string_view datatype, std::string_view data);

// Conversions of IEEE half precision and bfloat16.
uint16_t ToHalf(float value);
float FromHalf(uint16_t half);

}  // namespace braid::load
