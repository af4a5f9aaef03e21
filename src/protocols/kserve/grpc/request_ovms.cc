#include "protocols/kserve/grpc/request_ovms.h"

#include <algorithm>

#include "serving/ovms_status.h"
#include "serving/request_check_ovms.h"

namespace braid {
namespace {

const ParsedInput* FindInput(const ParsedRequest& parsed, std::string_view name) {
  const auto found = std::find_if(parsed.inputs.begin(), parsed.inputs.end(),
                                  [&](const ParsedInput& input) { return input.name == name; });
  return found == parsed.inputs.end() ? nullptr : &*found;
}

// REQUIRES: the datatype is known.
Status CheckValues(const ParsedInput& input, DataType type) {
  const std::optional<int64_t> expected = ElementCount(input.shape);
  // Which the checks of the shape refuse.
  if (!expected) return OkStatus();
  const std::optional<ContentsField> field = ContentsFieldFor(type);
  const uint64_t actual = field ? input.contents.count(*field) : 0;
  if (actual != static_cast<uint64_t>(*expected)) return OvmsValueCountError(*expected, actual, input.name);
  for (int i = 1; i <= kContentsFieldCount; ++i) {
    const auto other = static_cast<ContentsField>(i);
    if (other == field || input.contents.count(other) == 0) continue;
    return OvmsError(OvmsCode::kInvalidContentSize, "contents have values of another datatype than " +
                                                        input.datatype + "; input name: " + input.name);
  }
  return OkStatus();
}

// The request without its bytes.
InferenceRequest& TensorsOf(const ParsedRequest& parsed, InferenceRequest& request) {
  for (const ParsedInput& input : parsed.inputs) {
    Tensor& tensor = request.inputs.emplace_back();
    tensor.name = input.name;
    tensor.type = DataTypeFromWireName(input.datatype).value_or(DataType::kInvalid);
    tensor.shape = input.shape;
  }
  return request;
}

// A fault of the tensors, else `fault`. The names of datatypes that we do not know are the client's.
Status FirstFault(const ServableInfo& info, const ParsedRequest& parsed, Status fault) {
  InferenceRequest request;
  BRAID_RETURN_IF_ERROR(CheckOvmsTensors(info, TensorsOf(parsed, request)));
  return fault;
}

Status CheckDatatypes(const ServableInfo& info, const ParsedRequest& parsed) {
  const auto unknown = std::find_if(parsed.inputs.begin(), parsed.inputs.end(), [](const ParsedInput& input) {
    return !DataTypeFromWireName(input.datatype).has_value();
  });
  if (unknown == parsed.inputs.end()) return OkStatus();
  for (const TensorSpec& spec : info.inputs) {
    if (!spec.optional && FindInput(parsed, spec.name) == nullptr) {
      return OvmsError(OvmsCode::kInvalidMissingInput, "Required input: " + spec.name);
    }
  }
  const TensorSpec* spec = info.FindInput(unknown->name);
  if (spec != nullptr) return OvmsPrecisionError(*spec, unknown->datatype, ApiProtocol::kKServe);
  return OvmsError(OvmsCode::kInvalidUnexpectedInput, unknown->name + " is unexpected");
}

Status CheckContents(const ServableInfo& info, const ParsedRequest& parsed) {
  BRAID_RETURN_IF_ERROR(CheckOvmsStructure(parsed));
  BRAID_RETURN_IF_ERROR(CheckDatatypes(info, parsed));
  if (!parsed.raw.empty()) return OkStatus();
  for (const ParsedInput& input : parsed.inputs) {
    const std::optional<DataType> type = DataTypeFromWireName(input.datatype);
    if (!type || LiesInRegion(input)) continue;
    Status status = CheckValues(input, *type);
    if (!status.ok()) return FirstFault(info, parsed, std::move(status));
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
    return OvmsError(OvmsCode::kInvalidMessageStructure,
                     "Size of raw_input_contents: " + std::to_string(parsed.raw.size()) +
                         " is different than number of inputs: " + std::to_string(in_message));
  }
  for (const ParsedInput& input : parsed.inputs) {
    if (!input.contents.present()) continue;
    return OvmsError(OvmsCode::kInvalidMessageStructure,
                     "Passing buffers both in InferInputTensor contents and in raw_input_contents is not "
                     "allowed. Detected buffer in InferInputTensor contents for input: " +
                         input.name);
  }
  return OkStatus();
}

Status CheckOvmsContents(const ServableInfo& info, const ParsedRequest& parsed, size_t sequence_inputs) {
  Status fault = CheckContents(info, parsed);
  // Whether the number of inputs is right is for the servable to say, but first among all faults.
  if (!fault.ok()) BRAID_RETURN_IF_ERROR(CheckOvmsInputCount(info, parsed.inputs.size(), sequence_inputs));
  return fault;
}

}  // namespace braid
