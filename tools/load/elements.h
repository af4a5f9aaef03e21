// The elements of tensors: how large they are, made at random, from JSON and text, and as text.
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

// Bytes of one element; 0 for BYTES, whose elements differ. Errors: a datatype that KServe v2 does not have.
Result<size_t> ElementBytes(std::string_view datatype);

// The datatype that JSON values are sent in where the metadata does not tell it: INT64, FP32, BOOL or BYTES.
std::string GuessDatatype(const Json& value);

// The product of the dimensions. Errors: one is negative, or the product is beyond 2^32.
Result<size_t> ElementCount(const std::vector<int64_t>& shape);

enum class Fill { kZero, kRandom };

struct FillOptions {
  Fill fill = Fill::kRandom;
  size_t string_length = 128;  // of elements of BYTES made at random
  std::string string_data;     // every element of BYTES, where it is not empty
};

// The bytes of a tensor. Numbers at random are small and whole, floats lie in [0, 1); text is letters and digits.
Result<std::string> MakeElements(std::string_view datatype, const std::vector<int64_t>& shape,
                                 const FillOptions& options, std::mt19937_64& random);

// Appends one element of BYTES.
void AppendBytesElement(std::string_view element, std::string& data);

// Appends JSON values, in lists of any depth, as elements. Errors: a value that the datatype cannot have.
Status AppendJsonElements(const Json& value, std::string_view datatype, std::string& data);

// Calls visit(index, text) for the first `most` elements, each as JSON writes it (text in quotes, bytes that are no
// UTF-8 replaced). Elements that the data cuts short are not visited.
void VisitElements(std::string_view datatype, std::string_view data, size_t most,
                   const std::function<void(size_t, const std::string&)>& visit);

// All elements as one JSON list, for bodies of requests. FP16 and BF16 are written as numbers.
std::string JsonElements(std::string_view datatype, std::string_view data);

// IEEE half precision and bfloat16.
uint16_t ToHalf(float value);
float FromHalf(uint16_t half);

}  // namespace braid::load
