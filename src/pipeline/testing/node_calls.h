// Calls of custom node libraries in tests: nodes, their inputs, and the numbers of their outputs.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/custom_node_library.h"

namespace braid::testing {

using NodeParams = std::vector<std::pair<std::string, std::string>>;

inline Result<std::shared_ptr<const CustomNodeCode>> OpenNode(const std::string& path, NodeParams params) {
  BRAID_ASSIGN_OR_RETURN(auto library, CustomNodeLibrary::Open("lib", path));
  return library->CodeFor("n", std::move(params));
}

inline Tensor Floats(std::string name, const Shape& shape, const std::vector<float>& values) {
  EXPECT_EQ(static_cast<size_t>(*ElementCount(shape)), values.size());
  return {std::move(name), DataType::kFp32, shape, CopyToHeap(std::as_bytes(std::span(values)))};
}

template <class Number>
std::vector<Number> Values(const Tensor& tensor) {
  std::vector<Number> values(tensor.data.size() / sizeof(Number));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

}  // namespace braid::testing
