#include "config/initial_states.h"

#include <span>
#include <string>

#include "tensor/bytes_elements.h"

namespace braid {
namespace {

// Every request hands the state to a worker, so a larger one is a mistake.
constexpr size_t kMaxStateBytes = size_t{1} << 30;

using State = inference::ModelSequenceBatching::State;

bool HasElements(std::string_view data, int64_t expected) {
  BytesElements elements(data);
  int64_t count = 0;
  while (elements.Next()) ++count;
  return !elements.truncated() && count == expected;
}

Result<Tensor> LoadState(const State& state, bool batching, const std::string& model, const Folder& folder) {
  const auto fault = [&](const std::string& why) {
    return InvalidArgumentError("initial state of '" + state.input_name() + "' for model '" + model +
                                "': " + why);
  };
  Tensor tensor;
  tensor.name = state.input_name();
  tensor.type = static_cast<DataType>(state.data_type());
  if (batching) tensor.shape.push_back(1);
  const auto& dims = state.initial_state().empty() ? state.dims() : state.initial_state(0).dims();
  for (int64_t dim : dims) tensor.shape.push_back(dim == -1 ? 1 : dim);
  const std::optional<int64_t> elements = ElementCount(tensor.shape);
  const bool strings = tensor.type == DataType::kBytes;
  const size_t element_size = strings ? sizeof(uint32_t) : ElementSize(tensor.type);
  if (!elements || static_cast<uint64_t>(*elements) > kMaxStateBytes / element_size) {
    return fault("shape " + ShapeToString(tensor.shape) + " exceeds the limit of " +
                 std::to_string(kMaxStateBytes) + " bytes");
  }
  const size_t zero_bytes = static_cast<size_t>(*elements) * element_size;
  if (state.initial_state().empty() || state.initial_state(0).data_file().empty()) {
    const std::string zeros(zero_bytes, '\0');
    tensor.data = CopyToHeap(std::as_bytes(std::span(zeros)));
    return tensor;
  }
  const std::string path = "initial_state/" + state.initial_state(0).data_file();
  auto bytes = folder.ReadFile(path, kMaxStateBytes);
  if (!bytes.ok()) return fault("file '" + path + "' cannot be read: " + bytes.status().message());
  if (strings ? !HasElements(*bytes, *elements) : bytes->size() != zero_bytes) {
    return fault("file '" + path + "' has " + std::to_string(bytes->size()) + " bytes, which do not match " +
                 std::string(ConfigName(tensor.type)) + " of shape " + ShapeToString(tensor.shape));
  }
  tensor.data = CopyToHeap(std::as_bytes(std::span(*bytes)));
  return tensor;
}

}  // namespace

Result<std::vector<Tensor>> LoadInitialStates(const inference::ModelConfig& config,
                                              const Folder& model_folder) {
  std::vector<Tensor> tensors;
  for (const State& state : config.sequence_batching().state()) {
    BRAID_ASSIGN_OR_RETURN(Tensor tensor,
                           LoadState(state, config.max_batch_size() > 0, config.name(), model_folder));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace braid
