// The messages between the server and a worker. docs/architecture.md describes their order.
//
// Every message starts with its type. The decoded forms below hold views into the received message, which
// must outlive them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "ipc/segment.h"
#include "ipc/wire.h"
#include "tensor/data_type.h"
#include "tensor/shape.h"

namespace braid {

enum class MessageType : uint8_t {
  // Server to worker.
  kLoad = 1,          // LoadMessage: import the model and initialise it
  kExecute = 2,       // ExecuteMessage
  kFinalize = 3,      // no body: call finalize and exit
  kCheckReady = 4,    // CheckReadyMessage: ask the model's is_ready(); may come during an execution
  kAnswer = 5,        // AnswerMessage: the answer to kAsk
  kCallResponse = 6,  // ResponseMessage: one response to a kCall; its request_id is the call's id
  // The following messages go to a worker that runs the Python nodes of a graph; see node_messages.h.
  kNodeExecute = 7,
  kNodeResume = 8,
  kNodeClose = 9,
  kNodeSession = 10,
  kNodeDrop = 11,
  kNativeExecute = 12,  // to a native worker; see native_messages.h
  // Worker to server.
  kHello = 16,           // HelloMessage: the channel is open
  kLoaded = 17,          // LoadedMessage: the answer to kLoad
  kExecuted = 18,        // ExecutedMessage: user code has returned from an execution
  kResponse = 19,        // ResponseMessage: one response, apart from a returning execution
  kLog = 20,             // LogMessage
  kFinalized = 21,       // no body: finalize has returned, the worker exits
  kCall = 22,            // CallMessage: user code runs a request on a servable (BLS)
  kCancelCall = 23,      // CancelCallMessage
  kAsk = 24,             // AskMessage: user code calls the server
  kReadiness = 25,       // ReadinessMessage: the answer to kCheckReady
  kNodeStep = 26,        // see node_messages.h
  kNativeExecuted = 27,  // see native_messages.h
  // Both ways.
  kRelease = 32,        // ReleaseMessage: memory of the receiver that the sender no longer needs
  kRetireSegment = 33,  // RetireSegmentMessage: the sender will not name this segment again
};

// Tensors up to this size travel inside their message: cheaper than lending memory and returning it.
inline constexpr size_t kInlineTensorBytes = 1024;

// The location of a tensor's bytes.
enum class Place : uint8_t {
  kInline = 0,
  kSenderMemory = 1,    // a segment of the sender; the receiver sends kRelease when it is done
  kReceiverMemory = 2,  // memory that the receiver lent to the sender; this message returns it
  // Like kSenderMemory, from the server only: the memory is shared with others, so the receiver must not
  // change it.
  kSharedMemory = 3,
  // Like kSenderMemory and kSharedMemory, in memory of a GPU: a whole segment from its beginning.
  kDeviceMemory = 4,
  kSharedDeviceMemory = 5,
};
inline bool IsOnDevice(Place place) {
  return place == Place::kDeviceMemory || place == Place::kSharedDeviceMemory;
}

struct TensorMessage {
  std::string_view name;
  DataType type = DataType::kInvalid;
  Shape shape;
  Place place = Place::kInline;
  std::span<const std::byte> bytes;   // kInline
  MemoryHandle handle;                // otherwise
  std::string_view custom_type = {};  // for DataType::kCustom
};
void EncodeTensor(WireWriter& out, const TensorMessage& tensor);
TensorMessage DecodeTensor(WireReader& in);

// Every message below, and in the headers beside this one, has both functions. Encode() replaces `out`.
// Decode() returns false if the bytes are not a valid message. `type` is another type with the same fields.
template <class M>
void Encode(std::vector<std::byte>& out, const M& message, MessageType type = M::kType);
template <class M>
bool Decode(std::span<const std::byte> in, M& message, MessageType type = M::kType);

enum class LoadMode : uint8_t {
  kInstance = 0,      // import, construct, initialize; then wait for executions
  kAutoComplete = 1,  // import, call auto_complete_config, answer, exit
  kNodes = 2,         // the Python nodes of a graph; node_messages.h describes model_config
  kTemplate = 3,      // as kInstance; then fork instances on request. UNSUPPORTED if that is not possible
  kForked = 4,        // by a fork of a template: become the instance
};

struct LoadMessage {
  static constexpr MessageType kType = MessageType::kLoad;
  LoadMode mode = LoadMode::kInstance;
  std::string_view model_file;    // absolute path of the Python file
  std::string_view module_name;   // e.g. "1.model"
  std::string_view model_path;    // the model's folder; args["model_repository"]
  std::string_view version_path;  // get_model_dir()
  std::string_view model_config;  // JSON text of the configuration
  std::string_view model_name;
  std::string_view model_version;
  std::string_view instance_name;
  std::string_view instance_kind;       // "CPU", "GPU", "MODEL"
  std::string_view instance_device_id;  // "0"
  uint64_t arena_keep_bytes = 0;        // Arena::Options::keep_bytes of the worker
  // How much idle memory of a GPU the worker may keep; GPUs that are not listed have its default.
  struct DevicePool {
    int32_t gpu = 0;
    uint64_t keep_bytes = 0;
  };
  std::vector<DevicePool> device_pools;
  uint64_t pinned_pool_bytes = 0;  // how much of its memory it may pin
  bool verbose_errors = false;     // errors name paths and source lines
  // The server also keeps the model's sequence states, if the model can save and load them.
  bool keeps_sequences = false;
  // Where a debugger may attach: "PORT" on the loopback interface, "PORT wait" to wait for it; empty: nowhere.
  std::string_view debugger;
};

inline constexpr uint32_t kNoCancelSlot = 0xffffffff;

struct RequestMessage {
  uint64_t id = 0;  // the server's name for this request; comes back in responses
  std::string_view request_id;
  std::variant<uint64_t, std::string_view> correlation_id;
  uint32_t flags = 0;         // TRITONSERVER_REQUEST_FLAG_SEQUENCE_START 1, _END 2
  bool renders_chat = false;  // see InferenceRequest
  uint64_t timeout_us = 0;
  std::string_view parameters_json;
  uint32_t cancel_slot = kNoCancelSlot;             // index into ChannelHeader::cancelled
  std::string_view trace_context;                   // JSON text for trace().get_context(); "" for none
  std::vector<std::string_view> requested_outputs;  // empty: all outputs of the configuration
  std::vector<std::string_view> device_outputs;     // outputs that may stay on a GPU
  std::vector<TensorMessage> inputs;
};

struct ExecuteMessage {
  static constexpr MessageType kType = MessageType::kExecute;
  uint64_t execution_id =
      0;  // rises by one each time; the worker stores it in ChannelHeader::begun_execution
  std::vector<RequestMessage> requests;
};

struct HelloMessage {
  static constexpr MessageType kType = MessageType::kHello;
  std::string_view python_version;  // "3.11.2"
  std::string_view numpy_version;
};

struct LoadedMessage {
  static constexpr MessageType kType = MessageType::kLoaded;
  StatusCode code = StatusCode::kOk;
  std::string_view error;  // the text of the Python exception
  std::string_view
      auto_completed_config;        // kAutoComplete: JSON text; empty if the model has no such function
  bool has_readiness_hook = false;  // the model has is_ready()
  bool wants_sessions = false;      // kNodes: some node keeps state for each run of the graph
  bool saves_sequences = false;     // it was asked to, and the model has save_sequence() and load_sequence()
};

// One response to one request.
struct ResponseMessage {
  static constexpr MessageType kType = MessageType::kResponse;
  uint64_t request_id = 0;  // RequestMessage::id
  bool final = true;
  bool has_response = true;  // false only with final: the request ends without a further response
  StatusCode code = StatusCode::kOk;
  std::string_view error;
  std::string_view parameters_json;  // "" or an object
  std::vector<TensorMessage> outputs;

  bool IsValid() const { return final || has_response; }
};

struct ExecutedMessage {
  static constexpr MessageType kType = MessageType::kExecuted;
  uint64_t execution_id = 0;
  // SteadyNowNs() when user code is called, when it has returned, and when the outputs are in place.
  int64_t input_end_ns = 0;
  int64_t infer_end_ns = 0;
  int64_t output_end_ns = 0;
  // The responses that execute() returned. Requests that are answered by kResponse have none.
  std::vector<ResponseMessage> responses;
  // RequestMessage::id of the requests that user code has released for rescheduling. The worker has released
  // them, and this execution sends no response for them.
  std::vector<uint64_t> rescheduled;
};

// For CallMessage::blocked_execution: the call blocks all of the worker's executions.
inline constexpr uint64_t kBlocksEverything = UINT64_MAX;

// A request of user code to a servable of the server. Its responses come as kCallResponse, the last one
// marked final. Errors come as responses too.
struct CallMessage {
  static constexpr MessageType kType = MessageType::kCall;
  std::string_view model_name;
  int64_t model_version = -1;
  // The id of the execution that cannot return before this call has ended, as far as the worker knows (a
  // blocking call on the thread that runs execute). 0: none. kBlocksEverything: the call blocks the event
  // loop in which executions overlap. The server uses it to detect cycles.
  uint64_t blocked_execution = 0;
  // RequestMessage::id of the request of this model whose trace includes the call; 0 for none.
  uint64_t traced_request = 0;
  // When user code made the call, by the clock that all processes share. The timeout counts from then.
  int64_t called_ns = 0;
  // Whether the caller accepts any number of responses.
  bool decoupled = false;
  // Whether outputs may come in memory of a GPU.
  bool device_outputs = false;
  // `id` is the worker's name for the call: unique in its process, and never 0.
  RequestMessage request;

  bool IsValid() const { return request.id != 0; }
};

// The caller needs no further response. The final response still comes, with code CANCELLED or another.
struct CancelCallMessage {
  static constexpr MessageType kType = MessageType::kCancelCall;
  uint64_t call_id = 0;
};

// Decodes only the call's id and the final flag of a kCallResponse, to dispatch it without decoding the rest.
bool PeekCallResponse(std::span<const std::byte> in, uint64_t& call_id, bool& final);

enum class AskTopic : uint8_t {
  kLoadModel = 1,     // {"model_name", "config"}, with files as attachments
  kUnloadModel = 2,   // {"model_name", "unload_dependents"}
  kIsModelReady = 3,  // {"model_name", "model_version"}; answered by "true" or "false"
  kMetric = 4,        // an operation on custom metrics
  // VERSION:NAME, as "-1:m": whether the model takes inputs in memory of a GPU; answered by "true" or "false"
  kTakesDeviceInputs = 5,
};

struct AskMessage {
  static constexpr MessageType kType = MessageType::kAsk;
  uint64_t ask_id = 0;  // 0: no answer is expected
  AskTopic topic = AskTopic::kLoadModel;
  std::string_view text;  // JSON, by topic
  struct Attachment {
    std::string_view name;
    std::span<const std::byte> bytes;
  };
  std::vector<Attachment> attachments;

  bool IsValid() const { return topic >= AskTopic::kLoadModel; }
};

struct AnswerMessage {
  static constexpr MessageType kType = MessageType::kAnswer;
  uint64_t ask_id = 0;
  StatusCode code = StatusCode::kOk;
  std::string_view error;
  std::string_view text;  // JSON, by topic
};
bool PeekAnswer(std::span<const std::byte> in, uint64_t& ask_id);

struct CheckReadyMessage {
  static constexpr MessageType kType = MessageType::kCheckReady;
  uint64_t check_id = 0;
};

struct ReadinessMessage {
  static constexpr MessageType kType = MessageType::kReadiness;
  uint64_t check_id = 0;
  bool ready = false;
  std::string_view reason;  // if not ready
};

struct LogMessage {
  static constexpr MessageType kType = MessageType::kLog;
  uint8_t level = 0;  // LogLevel
  std::string_view file;
  uint32_t line = 0;
  std::string_view text;
};

// Memory of the receiver, by handles that start where those of the lending message do. Named once for each
// time that it was lent.
struct ReleaseMessage {
  static constexpr MessageType kType = MessageType::kRelease;
  std::vector<MemoryHandle> handles;
};

struct RetireSegmentMessage {
  static constexpr MessageType kType = MessageType::kRetireSegment;
  uint32_t segment = 0;
};

void EncodeBare(std::vector<std::byte>& out, MessageType type);  // kFinalize, kFinalized

// Returns the type of a message; an invalid type (0) for an empty one.
MessageType TypeOf(std::span<const std::byte> message);

}  // namespace braid
