#include "serving/request_check.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <limits>
#include <unordered_set>

#include "base/utf8.h"
#include "serving/request_check_ovms.h"
#include "serving/reshape.h"
#include "tensor/bytes_elements.h"

namespace braid {
namespace {

// Limit on the names in an error text; a request body has room for many more.
constexpr size_t kMostNamesInText = 64;

// The set of specifications that a request has named so far. Allocates nothing for up to 256.
class SeenSet {
 public:
  explicit SeenSet(size_t size) : words_(size / 64 + 1, 0) {}
  bool Contains(size_t index) const { return (words_[index / 64] >> (index % 64)) & 1; }
  // Returns false if it was present already.
  bool Insert(size_t index) {
    if (Contains(index)) return false;
    words_[index / 64] |= uint64_t{1} << (index % 64);
    return true;
  }

 private:
  boost::container::small_vector<uint64_t, 4> words_;
};

constexpr size_t kUnknown = std::numeric_limits<size_t>::max();

// Clients usually name tensors in the order of the metadata, so the search begins at the tensor's place in
// the request.
size_t FindSpec(const std::vector<TensorSpec>& specs, std::string_view name, size_t hint) {
  if (hint < specs.size() && specs[hint].name == name) return hint;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == name) return i;
  }
  return kUnknown;
}

void AppendQuoted(std::string& list, size_t& count, std::string_view name) {
  if (count > kMostNamesInText) return;
  if (count != 0) list += ',';
  if (count++ == kMostNamesInText) {
    list += "...";
  } else {
    list.append("'").append(Shortened(name)).append("'");
  }
}

Status Refused(const InferenceRequest& request, const std::string& text) {
  return InvalidArgumentError(RequestPrefix(request) + text);
}

std::string InputOfModel(const Tensor& input, const ServableInfo& info) {
  return "inference input '" + input.name + "' for model '" + info.name + "'";
}

Status InputCountError(const ServableInfo& info, const InferenceRequest& request, size_t required) {
  std::string got = "[";
  std::string missing = "[";
  size_t got_count = 0;
  size_t missing_count = 0;
  std::unordered_set<std::string_view> given;
  for (const Tensor& input : request.inputs) {
    AppendQuoted(got, got_count, input.name);
    given.insert(input.name);
  }
  for (const TensorSpec& spec : info.inputs) {
    if (!spec.optional && !given.contains(spec.name)) AppendQuoted(missing, missing_count, spec.name);
  }
  std::string expected = required == info.inputs.size()
                             ? "expected " + std::to_string(required)
                             : "expected number of inputs between " + std::to_string(required) + " and " +
                                   std::to_string(info.inputs.size());
  // With optional inputs, the contract's text puts "inputs" before the numbers.
  expected += required == info.inputs.size() ? " inputs but got " : " but got ";
  return Refused(request, expected + std::to_string(request.inputs.size()) + " inputs for model '" +
                              info.name + "'. Got input(s) " + got + "], but missing required input(s) " +
                              missing + "]. Please provide all required input(s).");
}

Status ShapeError(const ServableInfo& info, const InferenceRequest& request, const Tensor& input,
                  const TensorSpec& spec) {
  std::string text = "unexpected shape for input '" + input.name + "' for model '" + info.name +
                     "'. Expected " + ShapeToString(spec.shape) + ", got " + ShapeToString(input.shape) +
                     ". ";
  if (info.max_batch_size > 0) {
    text += "NOTE: The model has a max_batch_size of " + std::to_string(info.max_batch_size) +
            ", so the first dimension of each input is the batch dimension, which the dims of its "
            "configuration leave out. " +
            "If the dims are meant to be the whole shape, set max_batch_size to 0.";
  }
  return Refused(request, text);
}

Status CheckStrings(const ServableInfo& info, const InferenceRequest& request, const Tensor& input,
                    int64_t expected) {
  BytesElements elements(input.data.text());
  int64_t count = 0;
  while (elements.Next()) {
    if (++count > expected) {
      return Refused(request, "unexpected number of string elements " + std::to_string(count) + " for " +
                                  InputOfModel(input, info) + ", expecting " + std::to_string(expected));
    }
  }
  switch (elements.truncation()) {
    case BytesElements::Truncation::kNone:
      break;
    case BytesElements::Truncation::kLength:
      return InvalidArgumentError("incomplete string length indicator for " + InputOfModel(input, info) +
                                  ", expecting 4 bytes for the length of element " + std::to_string(count) +
                                  " but fewer are left");
    case BytesElements::Truncation::kData:
      return InvalidArgumentError("incomplete string data for " + InputOfModel(input, info) +
                                  ", expecting string of length " +
                                  std::to_string(elements.expected_length()) + " but only " +
                                  std::to_string(elements.available()) + " bytes available");
  }
  if (count != expected) {
    return Refused(request, "expected " + std::to_string(expected) + " string elements for " +
                                InputOfModel(input, info) + ", got " + std::to_string(count));
  }
  return OkStatus();
}

// Checks type, shape and bytes of one input.
Status CheckInput(const ServableInfo& info, const InferenceRequest& request, const Tensor& input,
                  const TensorSpec& spec) {
  if (input.type != spec.type) {
    return Refused(request, "inference input '" + input.name + "' data-type is '" +
                                std::string(WireName(input.type)) + "', but model '" + info.name +
                                "' expects '" + std::string(WireName(spec.type)) + "'");
  }
  // A -1 in the specification would also match a negative size.
  const bool negative =
      std::any_of(input.shape.begin(), input.shape.end(), [](int64_t size) { return size < 0; });
  if (negative || !ShapeMatches(spec.shape, input.shape)) return ShapeError(info, request, input, spec);
  const std::optional<int64_t> elements = ElementCount(input.shape);
  if (!elements) {
    return Refused(request, "shape " + ShapeToString(input.shape) + " of input '" + input.name +
                                "' for model '" + info.name +
                                "' causes total element count to exceed maximum size of " +
                                std::to_string(std::numeric_limits<int64_t>::max()));
  }
  if (spec.type == DataType::kBytes) return CheckStrings(info, request, input, *elements);
  const std::optional<size_t> bytes = ByteSize(spec.type, input.shape);
  if (!bytes) {
    return Refused(request, "byte size overflow for input '" + input.name + "' for model '" + info.name +
                                "': shape " + ShapeToString(input.shape) + " of " +
                                std::string(WireName(spec.type)));
  }
  if (*bytes != input.data.size()) {
    return Refused(request, "input byte size mismatch for input '" + input.name + "' for model '" +
                                info.name + "'. Expected " + std::to_string(*bytes) + ", got " +
                                std::to_string(input.data.size()));
  }
  return OkStatus();
}

// One input of a request. Inputs are checked from the last of the specification to the first, so that an
// error names the last wrong one.
struct CheckedInput {
  Tensor* input;
  const TensorSpec* spec;
};
using CheckOrder = boost::container::small_vector<CheckedInput, 16>;

// Checks that all inputs have the same first dimension, which becomes the request's batch size.
Status CheckBatch(const ServableInfo& info, const CheckOrder& inputs, InferenceRequest& request) {
  request.batch_size = 1;
  if (info.max_batch_size <= 0 || inputs.empty()) return OkStatus();
  const Shape& first = inputs.back().input->shape;
  for (const CheckedInput& checked : inputs) {
    const Tensor& input = *checked.input;
    if (input.shape.empty()) {
      return Refused(request, "input '" + input.name +
                                  "' has no shape but model requires batch dimension for '" + info.name +
                                  "'");
    }
    if (!first.empty() && input.shape[0] != first[0]) {
      return Refused(request, "input '" + input.name + "' batch size does not match other inputs for '" +
                                  info.name + "'");
    }
  }
  request.batch_size = first[0];
  if (request.batch_size > info.max_batch_size) {
    return Refused(request, "inference request batch-size must be <= " + std::to_string(info.max_batch_size) +
                                " for '" + info.name + "'");
  }
  return OkStatus();
}

// Checks the tensors of a request to a servable that takes any.
Status CheckAnyTensors(const ServableInfo& info, InferenceRequest& request) {
  request.batch_size = 1;
  std::unordered_set<std::string_view> given;
  for (const Tensor& input : request.inputs) {
    if (!given.insert(input.name).second)
      return Refused(request, "input '" + input.name + "' already exists in request");
    TensorSpec own;
    own.type = input.type;
    own.shape = input.shape;
    BRAID_RETURN_IF_ERROR(CheckInput(info, request, input, own));
  }
  return OkStatus();
}

}  // namespace

Status CheckRequestedOutputs(const ServableInfo& info, const InferenceRequest& request) {
  SeenSet seen(info.outputs.size());
  for (size_t i = 0; i < request.requested_outputs.size(); ++i) {
    const std::string& name = request.requested_outputs[i];
    const size_t index = FindSpec(info.outputs, name, i);
    if (index == kUnknown) {
      return InvalidArgumentError("unexpected inference output '" + Shortened(name) + "' for model '" +
                                  info.name + "'");
    }
    if (!seen.Insert(index)) return Refused(request, "output '" + name + "' already exists in request");
  }
  return OkStatus();
}

std::string RequestPrefix(const InferenceRequest& request) {
  return "[request id: " + (request.id.empty() ? std::string("<id_unknown>") : Shortened(request.id)) + "] ";
}

Status CheckRequest(const ServableInfo& info, InferenceRequest& request) {
  if (info.dialect == Dialect::kOvms) return CheckOvmsRequest(info, request);
  if (info.any_tensors) return CheckAnyTensors(info, request);
  BRAID_RETURN_IF_ERROR(CheckRequestedOutputs(info, request));

  // The input for each place of the specification. Inputs beyond the expected count are not checked further.
  boost::container::small_vector<Tensor*, 16> inputs(info.inputs.size());
  size_t required = 0;
  size_t required_given = 0;
  for (const TensorSpec& spec : info.inputs) required += spec.optional ? 0 : 1;
  const Tensor* unknown = nullptr;
  for (size_t i = 0; i < request.inputs.size() && i <= info.inputs.size(); ++i) {
    Tensor& input = request.inputs[i];
    const size_t index = FindSpec(info.inputs, input.name, i);
    if (index == kUnknown) {
      if (unknown == nullptr) unknown = &input;
      continue;
    }
    if (inputs[index] != nullptr) {
      return Refused(request, "input '" + input.name + "' already exists in request");
    }
    required_given += info.inputs[index].optional ? 0 : 1;
    inputs[index] = &input;
  }
  if (request.inputs.size() < required || request.inputs.size() > info.inputs.size()) {
    return InputCountError(info, request, required);
  }
  if (unknown != nullptr) {
    return InvalidArgumentError("unexpected inference input '" + Shortened(unknown->name) + "' for model '" +
                                info.name + "'");
  }
  if (required_given != required) return InputCountError(info, request, required);

  CheckOrder order;
  for (size_t i = inputs.size(); i-- > 0;) {
    if (inputs[i] != nullptr) order.push_back({inputs[i], &info.inputs[i]});
  }
  BRAID_RETURN_IF_ERROR(CheckBatch(info, order, request));
  for (const auto& [input, spec] : order) {
    BRAID_RETURN_IF_ERROR(CheckInput(info, request, *input, *spec));
    if (spec->model_shape) Reshape(spec->shape, *spec->model_shape, input->shape);
  }
  return OkStatus();
}

}  // namespace braid
