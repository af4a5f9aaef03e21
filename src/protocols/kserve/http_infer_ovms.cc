#include "protocols/kserve/http_infer_ovms.h"

#include "protocols/kserve/http_json_data.h"
#include "serving/ovms_status.h"
#include "serving/request_check_ovms.h"

namespace braid {

Result<std::optional<uint64_t>> ImpliedBinarySize(const Tensor& tensor, size_t left, bool only_input) {
  if (left == 0) return std::optional<uint64_t>();
  if (tensor.type == DataType::kBytes) {
    if (only_input && ElementCount(tensor.shape) == 1) return std::optional<uint64_t>(left);
    return OvmsError(OvmsCode::kRestBinaryDataSizeInvalid,
                     "BYTES of this shape need one; input name: " + tensor.name);
  }
  const auto size = ByteSize(tensor.type, tensor.shape);
  if (!size) return OvmsError(OvmsCode::kRestBinaryBufferExceeded, "input name: " + tensor.name);
  return std::optional<uint64_t>(*size);
}

Status CheckJsonValueCount(const ServableInfo& info, const InferenceRequest& request, size_t index,
                           const simdjson::dom::element* data) {
  const Tensor& tensor = request.inputs[index];
  const int64_t expected = ElementCount(tensor.shape).value_or(0);
  const size_t actual = data != nullptr ? CountNestedJsonValues(*data) : 0;
  if (static_cast<uint64_t>(expected) == actual) return OkStatus();
  BRAID_RETURN_IF_ERROR(CheckOvmsTensors(info, request));
  return OvmsValueCountError(expected, actual, tensor.name);
}

}  // namespace braid
