// The functions of include/custom_node_interface.h for a built-in node. Exceptions leave them on purpose: the
// loader of the server catches them and reports their texts, which a return code has no place for.
#include "custom_nodes/nodes/interface.h"

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>

namespace braid::custom_nodes {
namespace {

Node& NodeOf(void* manager) { return *static_cast<Node*>(manager); }

void PrintTensors(const char* kind, std::span<const CustomNodeTensor> tensors) {
  for (const CustomNodeTensor& tensor : tensors) {
    std::fprintf(stderr, "custom node %s: %s '%s' is %s\n", kNodeName, kind, tensor.name,
                 Describe(tensor.precision, {tensor.dims, tensor.dimsCount}).c_str());
  }
}

int Tell(const std::vector<TensorInfo>& infos, Memory& memory, CustomNodeTensorInfo** info, int* count) {
  using Part = Memory::Kind::Part;
  // Give() takes back every part if a later one cannot be allocated.
  struct Parts {
    Memory& memory;
    std::vector<void*> all;
    ~Parts() {
      for (void* part : all) memory.Give(part);
    }
    void* Take(Part part, size_t index, size_t bytes) {
      all.reserve(all.size() + 1);
      return all.emplace_back(memory.Take({true, part, index}, bytes));
    }
  } parts{memory, {}};
  auto* const array = static_cast<CustomNodeTensorInfo*>(
      parts.Take(Part::kArray, 0, infos.size() * sizeof(CustomNodeTensorInfo)));
  for (size_t i = 0; i < infos.size(); ++i) {
    const std::vector<uint64_t>& dims = infos[i].dims;
    auto* const copy = static_cast<uint64_t*>(parts.Take(Part::kDims, i, dims.size() * sizeof(uint64_t)));
    std::ranges::copy(dims, copy);
    array[i] = {infos[i].name, copy, dims.size(), infos[i].precision};
  }
  parts.all.clear();
  *info = array;
  *count = static_cast<int>(infos.size());
  return 0;
}

}  // namespace
}  // namespace braid::custom_nodes

using namespace braid::custom_nodes;

int initialize(void** manager, const CustomNodeParam* params, int params_count) {
  Params read(params, params_count);
  std::unique_ptr<Node> node = MakeNode(read);
  for (const std::string& warning : read.Warnings()) {
    std::fprintf(stderr, "custom node %s: %s\n", kNodeName, warning.c_str());
  }
  if (*manager != nullptr) {
    // A server may initialize a node again; its memory may be in use.
    NodeOf(*manager).memory().Keep(node->memory().kept());
  } else {
    *manager = node.release();
  }
  return 0;
}

int deinitialize(void* manager) {
  delete static_cast<Node*>(manager);
  return 0;
}

int execute(const CustomNodeTensor* inputs, int inputs_count, CustomNodeTensor** outputs, int* outputs_count,
            const CustomNodeParam*, int, void* manager) {
  Node& node = NodeOf(manager);
  const std::span given(inputs, static_cast<size_t>(inputs_count));
  if (node.debug()) PrintTensors("input", given);
  const auto sorted = node.Sort(given);
  Outputs made(node.memory(), node.outputs());
  node.Execute(sorted, made);
  if (node.debug()) PrintTensors("output", made.tensors());
  made.Give(outputs, outputs_count);
  return 0;
}

int getInputsInfo(CustomNodeTensorInfo** info, int* info_count, const CustomNodeParam*, int, void* manager) {
  return Tell(NodeOf(manager).inputs(), NodeOf(manager).memory(), info, info_count);
}

int getOutputsInfo(CustomNodeTensorInfo** info, int* info_count, const CustomNodeParam*, int, void* manager) {
  return Tell(NodeOf(manager).outputs(), NodeOf(manager).memory(), info, info_count);
}

int release(void* memory, void* manager) {
  NodeOf(manager).memory().Give(memory);
  return 0;
}
