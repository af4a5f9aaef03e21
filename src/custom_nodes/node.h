// Node: the common part of the built-in custom nodes, whose params docs/custom-nodes.md lists.
// nodes/interface.cc makes the interface of a library (include/custom_node_interface.h) from it.
//
// Errors are exceptions: the server's loader adds their texts to the client's error and to the log.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "custom_nodes/memory.h"
#include "include/custom_node_interface.h"

namespace braid::custom_nodes {

// An input or output of a node; a dimension of 0 is any size. The name is a literal.
struct TensorInfo {
  const char* name;
  CustomNodeTensorPrecision precision;
  std::vector<uint64_t> dims;
};

// Returns "FP32 [1,3,?,?]".
std::string Describe(CustomNodeTensorPrecision precision, std::span<const uint64_t> dims);

// The outputs of one execution. They are freed unless the server takes them.
class Outputs {
 public:
  Outputs(Memory& memory, const std::vector<TensorInfo>& infos);
  ~Outputs();
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  // Allocates the output `index` of these dimensions; returns the place for its values.
  float* AddFloats(size_t index, std::vector<uint64_t> dims) {
    return static_cast<float*>(Add(index, dims, sizeof(float)));
  }
  int32_t* AddInts(size_t index, std::vector<uint64_t> dims) {
    return static_cast<int32_t*>(Add(index, dims, sizeof(int32_t)));
  }

  // Hands the outputs over to the server. REQUIRES: all were added.
  void Give(CustomNodeTensor** tensors, int* count);
  std::span<const CustomNodeTensor> tensors() const { return {tensors_, infos_.size()}; }

 private:
  void* Add(size_t index, const std::vector<uint64_t>& dims, size_t element);

  Memory& memory_;
  const std::vector<TensorInfo>& infos_;
  CustomNodeTensor* tensors_;
};

class Node {
 public:
  virtual ~Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const std::vector<TensorInfo>& inputs() const { return inputs_; }
  const std::vector<TensorInfo>& outputs() const { return outputs_; }
  Memory& memory() { return memory_; }
  // Whether each execution writes its tensors' shapes to standard error.
  bool debug() const { return debug_; }

  // Checks the inputs, and returns them in the order of inputs().
  std::vector<const CustomNodeTensor*> Sort(std::span<const CustomNodeTensor> given) const;

  // Several threads call it at once. `inputs` are Sort()'s.
  virtual void Execute(const std::vector<const CustomNodeTensor*>& inputs, Outputs& outputs) const = 0;

 protected:
  Node(std::vector<TensorInfo> inputs, std::vector<TensorInfo> outputs, bool debug, Memory::Kept kept = {})
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)), debug_(debug), memory_(kept) {}

 private:
  const std::vector<TensorInfo> inputs_;
  const std::vector<TensorInfo> outputs_;
  const bool debug_;
  Memory memory_;
};

}  // namespace braid::custom_nodes
