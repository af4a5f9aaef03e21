// What the server and a native worker say to each other, beside messages.h.
//
// A native worker is a process that runs native code (a library such as OpenVINO) in the server's place. It has all
// instances of one model, which run beside each other. The texts of LoadMessage::model_config and
// LoadedMessage::auto_completed_config are what backends/native/native_task.h says. Memory is lent as in messages.h; what
// comes with an execution is given back with its answer.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ipc/messages.h"

namespace braid {

// Runs an execution on an instance; those of one instance run in the order in which they come. The worker stores
// `execution_id` in ChannelHeader::begun_execution before it begins.
struct NativeExecuteMessage {
  static constexpr MessageType kType = MessageType::kNativeExecute;
  uint64_t execution_id = 0;  // rises by one each time
  uint32_t instance = 0;      // its place among the model's
  int64_t rows = 0;           // Execution::rows
  struct Request {
    int64_t rows = 0;  // InferenceRequest::batch_size
    std::vector<TensorMessage> inputs;
  };
  std::vector<Request> requests;
};

// An execution has ended: one response for each of its requests, in their order.
struct NativeExecutedMessage {
  static constexpr MessageType kType = MessageType::kNativeExecuted;
  uint64_t execution_id = 0;
  // As of ExecutedMessage.
  int64_t input_end_ns = 0;
  int64_t infer_end_ns = 0;
  int64_t output_end_ns = 0;
  struct Response {
    uint8_t code = 0;   // a StatusCode, also one that user code does not know
    uint8_t fault = 0;  // Status::fault(), which the receiver is to check
    std::string_view error;
    std::vector<TensorMessage> outputs;

    bool IsValid() const { return code <= static_cast<uint8_t>(StatusCode::kPermissionDenied); }
  };
  std::vector<Response> responses;
  // As of ReleaseMessage; of any execution.
  std::vector<MemoryHandle> released;
};

}  // namespace braid
