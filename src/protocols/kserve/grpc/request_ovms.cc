#include "protocols/kserve/grpc/request_ovms.h"

#include <algorithm>

#include "base/utf8.h"
#include "serving/faults.h"
#include "serving/request_check_ovms.h"

namespace braid {
namespace {

// REQUIRES: the datatype is known.
Status CheckValues(const ParsedInput& input, const Tensor& tensor) {
  const std::optional<int64_t> expected = ElementCount(tensor.shape);
  // The checks of the shape refuse it.
  if (!expected) return OkStatus();
  const std::optional<ContentsField> field = ContentsFieldFor(tensor.type);
  const uint64_t actual = field ? input.contents.count(*field) : 0;
  if (actual != static_cast<uint64_t>(*expected)) return OvmsValueCountError(*expected, actual, input.name);
  for (int i = 1; i <= kContentsFieldCount; ++i) {
    const auto other = static_cast<ContentsField>(i);
    if (other == field || input.contents.count(other) == 0) continue;
    return FaultError(Fault::kInvalidContentSize, "contents do not match datatype " +
                                                      Shortened(input.datatype) +
                                                      "; input name: " + Shortened(input.name));
  }
  return OkStatus();
}

// Returns the error for an unknown datatype, which contains the client's name for it.
Status UnknownDatatype(const ServableInfo& info, const ParsedRequest& parsed, const ParsedInput& unknown) {
  for (const TensorSpec& spec : info.inputs) {
    const auto is_it = [&](const ParsedInput& input) { return input.name == spec.name; };
    if (!spec.optional && std::none_of(parsed.inputs.begin(), parsed.inputs.end(), is_it)) {
      return FaultError(Fault::kInvalidMissingInput, "Required input: " + spec.name);
    }
  }
  const TensorSpec* spec = info.FindInput(unknown.name);
  if (spec != nullptr) return OvmsPrecisionError(*spec, Shortened(unknown.datatype), ApiProtocol::kKServe);
  return FaultError(Fault::kInvalidUnexpectedInput, Shortened(unknown.name) + " is unexpected");
}

Status CheckContents(const ServableInfo& info, const ParsedRequest& parsed, InferenceRequest& request) {
  BRAID_RETURN_IF_ERROR(CheckOvmsStructure(parsed));
  const std::vector<Tensor>& tensors = request.inputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].type == DataType::kInvalid) return UnknownDatatype(info, parsed, parsed.inputs[i]);
  }
  if (!parsed.raw.empty()) return OkStatus();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (LiesInRegion(parsed.inputs[i])) continue;
    Status fault = CheckValues(parsed.inputs[i], tensors[i]);
    if (fault.ok()) continue;
    for (size_t k = 0; k < tensors.size(); ++k) request.inputs[k].name = parsed.inputs[k].name;
    BRAID_RETURN_IF_ERROR(CheckOvmsTensors(info, request));
    return fault;
  }
  return OkStatus();
}

}  // namespace

bool LiesInRegion(const ParsedInput& input) {
  return FindParameter(input.parameters, "shared_memory_region") != nullptr;
}

Status CheckOvmsStructure(const ParsedRequest& parsed) {
  if (parsed.raw.empty()) return OkStatus();
  const auto in_message =
      static_cast<size_t>(std::count_if(parsed.inputs.begin(), parsed.inputs.end(),
                                        [](const ParsedInput& input) { return !LiesInRegion(input); }));
  if (parsed.raw.size() != in_message) {
    return FaultError(Fault::kInvalidMessageStructure,
                      "Size of raw_input_contents: " + std::to_string(parsed.raw.size()) +
                          " is different than number of inputs: " + std::to_string(in_message));
  }
  for (const ParsedInput& input : parsed.inputs) {
    if (!input.contents.present()) continue;
    return FaultError(Fault::kInvalidMessageStructure,
                      "Passing buffers both in InferInputTensor contents and in raw_input_contents is not "
                      "allowed. Detected buffer in InferInputTensor contents for input: " +
                          Shortened(input.name));
  }
  return OkStatus();
}

Status CheckOvmsContents(const ServableInfo& info, const ParsedRequest& parsed, InferenceRequest& request) {
  Status fault = CheckContents(info, parsed, request);
  // The servable checks the number of inputs, and that fault is reported before all others.
  if (!fault.ok()) {
    BRAID_RETURN_IF_ERROR(CheckOvmsInputCount(info, parsed.inputs.size(), request.sequence_inputs));
  }
  return fault;
}

}  // namespace braid
