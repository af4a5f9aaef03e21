// The messages between the server and a native worker, in addition to messages.h.
//
// A native worker is a process that runs native code (a library such as OpenVINO) in the server's place. It
// has all instances of one model, which run concurrently. backends/native/native_task.h defines the texts of
// LoadMessage::model_config and LoadedMessage::auto_completed_config. Memory is lent as in messages.h; memory
// that comes with an execution is returned with its answer.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ipc/messages.h"

namespace braid {

// Runs an execution on an instance. Executions of one instance run in the order of arrival. The worker stores
// `execution_id` in ChannelHeader::begun_execution before it begins.
struct NativeExecuteMessage {
  static constexpr MessageType kType = MessageType::kNativeExecute;
  uint64_t execution_id = 0;  // rises by one each time
  uint32_t instance = 0;      // its index among the model's instances
  int64_t rows = 0;           // Execution::rows
  struct Request {
    int64_t rows = 0;  // InferenceRequest::batch_size
    std::vector<TensorMessage> inputs;
  };
  std::vector<Request> requests;
};

// The end of an execution, with one response per request, in order.
struct NativeExecutedMessage {
  static constexpr MessageType kType = MessageType::kNativeExecuted;
  uint64_t execution_id = 0;
  // As in ExecutedMessage.
  int64_t input_end_ns = 0;
  int64_t infer_end_ns = 0;
  int64_t output_end_ns = 0;
  struct Response {
    uint8_t code = 0;   // a StatusCode, including those that user code does not know
    uint8_t fault = 0;  // Status::fault(), which the receiver must check
    std::string_view error;
    std::vector<TensorMessage> outputs;

    bool IsValid() const { return code <= static_cast<uint8_t>(StatusCode::kPermissionDenied); }
  };
  std::vector<Response> responses;
  // As in ReleaseMessage; may belong to any execution.
  std::vector<MemoryHandle> released;
};

}  // namespace braid
