#include "tracing/finished_trace.h"

#include <spdlog/fmt/fmt.h>

#include <cstring>

#include "base/json.h"
#include "tensor/bytes_elements.h"

namespace braid {
namespace {

template <class T>
void AppendElements(const TracedTensor& tensor, std::string& text) {
  for (size_t at = 0; at + sizeof(T) <= tensor.bytes.size(); at += sizeof(T)) {
    T element;
    std::memcpy(&element, tensor.bytes.data() + at, sizeof(T));
    fmt::format_to(std::back_inserter(text), "{}{}", at == 0 ? "" : ",", element);
  }
}

// As bit patterns, because C++ has no such type here.
void AppendHalves(const TracedTensor& tensor, std::string& text) {
  for (size_t at = 0; at + 2 <= tensor.bytes.size(); at += 2) {
    uint16_t bits = 0;
    std::memcpy(&bits, tensor.bytes.data() + at, 2);
    fmt::format_to(std::back_inserter(text), "{}0x{:04x}", at == 0 ? "" : ",", bits);
  }
}

void AppendTexts(const TracedTensor& tensor, std::string& text) {
  BytesElements elements({reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
  while (elements.Next()) {
    if (!text.empty()) text += ',';
    text += DumpJson(Json(elements.value()));
  }
}

}  // namespace

std::string_view TraceActivityName(TraceActivity activity, TraceProtocol protocol) {
  const bool http = protocol == TraceProtocol::kHttp;
  switch (activity) {
    case TraceActivity::kRequestStart:
      return "REQUEST_START";
    case TraceActivity::kQueueStart:
      return "QUEUE_START";
    case TraceActivity::kComputeStart:
      return "COMPUTE_START";
    case TraceActivity::kComputeInputEnd:
      return "COMPUTE_INPUT_END";
    case TraceActivity::kComputeOutputStart:
      return "COMPUTE_OUTPUT_START";
    case TraceActivity::kComputeEnd:
      return "COMPUTE_END";
    case TraceActivity::kRequestEnd:
      return "REQUEST_END";
    case TraceActivity::kReceiveStart:
      return http ? "HTTP_RECV_START" : "GRPC_WAITREAD_START";
    case TraceActivity::kReceiveEnd:
      return http ? "HTTP_RECV_END" : "GRPC_WAITREAD_END";
    case TraceActivity::kSendStart:
      return http ? "HTTP_SEND_START" : "GRPC_SEND_START";
    case TraceActivity::kSendEnd:
      return http ? "HTTP_SEND_END" : "GRPC_SEND_END";
  }
  return "";
}

std::string_view TraceTensorKindName(TraceTensorKind kind) {
  switch (kind) {
    case TraceTensorKind::kQueueInput:
      return "TENSOR_QUEUE_INPUT";
    case TraceTensorKind::kBackendInput:
      return "TENSOR_BACKEND_INPUT";
    case TraceTensorKind::kBackendOutput:
      return "TENSOR_BACKEND_OUTPUT";
  }
  return "";
}

std::string TensorText(const TracedTensor& tensor) {
  std::string text;
  switch (tensor.type) {
    case DataType::kBool:
    case DataType::kUint8:
      AppendElements<uint8_t>(tensor, text);
      break;
    case DataType::kUint16:
      AppendElements<uint16_t>(tensor, text);
      break;
    case DataType::kUint32:
      AppendElements<uint32_t>(tensor, text);
      break;
    case DataType::kUint64:
      AppendElements<uint64_t>(tensor, text);
      break;
    case DataType::kInt8:
      AppendElements<int8_t>(tensor, text);
      break;
    case DataType::kInt16:
      AppendElements<int16_t>(tensor, text);
      break;
    case DataType::kInt32:
      AppendElements<int32_t>(tensor, text);
      break;
    case DataType::kInt64:
      AppendElements<int64_t>(tensor, text);
      break;
    case DataType::kFp32:
      AppendElements<float>(tensor, text);
      break;
    case DataType::kFp64:
      AppendElements<double>(tensor, text);
      break;
    case DataType::kFp16:
    case DataType::kBf16:
      AppendHalves(tensor, text);
      break;
    case DataType::kBytes:
      AppendTexts(tensor, text);
      break;
    case DataType::kInvalid:
    case DataType::kCustom:
      break;
  }
  return text;
}

std::string ShapeText(const Shape& shape) { return fmt::format("{}", fmt::join(shape, ",")); }

}  // namespace braid
