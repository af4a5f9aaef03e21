#include "worker/extension/worker.h"

#include <unistd.h>

#include <cstring>

#include "base/clock.h"
#include "worker/extension/devices.h"
#include "worker/extension/dlpack.h"
#include "worker/extension/memory.h"
#include "worker/extension/node_runner.h"
#include "worker/extension/python_state.h"
#include "worker/extension/turn.h"

namespace braid {
namespace {

constexpr double kTrimSeconds = 1;

// The call of a Python node that this thread runs; 0: none.
thread_local uint64_t node_call = 0;

thread_local Worker* selected = nullptr;

// Holds the GIL on a thread that Python did not create.
class WithGil {
 public:
  WithGil() : state_(PyGILState_Ensure()) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  const PyGILState_STATE state_;
};

}  // namespace

namespace {

// Copies to a block of a DevicePool, without the GIL.
Status CopyOnDevice(CudaContext& device, CudaAddress from, const Buffer& block) {
  Status copied;
  const size_t dirty = DevicePool::TakeDirty(block);
  Py_BEGIN_ALLOW_THREADS copied = device.CopyWithin(DevicePool::AddressOf(block), from, block.size(), dirty);
  Py_END_ALLOW_THREADS return copied;
}

}  // namespace

Worker* CurrentWorker() { return selected != nullptr ? selected : State().worker; }

Worker* SelectWorker(Worker* worker) { return std::exchange(selected, worker); }

void RaiseBroken(std::string_view what) {
  PyErr_Format(PyExc_RuntimeError, "the conversation with the server is broken: %s",
               std::string(what).c_str());
}

Ref TakeException() {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value != nullptr && traceback != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return Ref::Steal(value);
}

std::string TakeExceptionText() {
  Ref exception = TakeException();
  if (!exception) return "unknown error";
  Ref name =
      Ref::Steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), "__name__"));
  Ref text = Ref::Steal(PyObject_Str(exception.get()));
  std::string_view name_view;
  std::string_view text_view;
  if (!name || !text || !TextOf(name.get(), name_view) || !TextOf(text.get(), text_view)) {
    PyErr_Clear();
    return "an exception that cannot be shown";
  }
  return std::string(name_view) + ": " + std::string(text_view);
}

Worker::Worker(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)),
      inbox_(MakeInbox()),
      header_(&connection_->header()),
      calls_(*this),
      main_thread_(std::this_thread::get_id()) {}

Worker::~Worker() = default;

NodeRunner& Worker::nodes() {
  if (!nodes_) nodes_ = std::make_unique<NodeRunner>(*this);
  return *nodes_;
}

std::unique_ptr<Inbox> Worker::MakeInbox() {
  return std::make_unique<Inbox>(connection_->channel(), [this] {
    WithGil gil;
    DoChores();
  });
}

// --- The run loop

bool Worker::Run(PyObject* host) {
  host_ = Ref::Share(host);
  main_thread_ = std::this_thread::get_id();
  while (Advance()) {
    if (ended_) return true;
    if (!(nodes_ ? ServeNodes() : Idle())) return false;
  }
  return false;
}

void Worker::Retire() {
  serving_ = false;
  connection_->Close();
  Py_BEGIN_ALLOW_THREADS inbox_->End("The model is unloaded.");
  connection_->EndWatching();
  Py_END_ALLOW_THREADS connection_->Retire();
}

// Handles all pending messages. In the event loop, stops at a message that must be handled outside of it.
bool Worker::Advance() {
  // In a worker with nodes, other threads handle the messages.
  while (!ended_ && !nodes_) {
    DoChores();
    if (!turn_ && !held_.empty()) {
      received_ = std::move(held_.front());
      held_.pop_front();
    } else {
      const Inbox::Outcome outcome = inbox_->Next(received_, 0);
      if (outcome == Inbox::Outcome::kAttend) continue;
      if (outcome == Inbox::Outcome::kTimeout) return true;
      if (outcome == Inbox::Outcome::kEnded) {
        RaiseBroken(inbox_->why());
        return false;
      }
      if (turn_) {
        held_.push_back(std::move(received_));
        continue;
      }
    }
    if (in_loop_ && !(model_.coroutine && TypeOf(received_) == MessageType::kExecute)) {
      // User code that is not a coroutine may run its own event loop, which is impossible inside a running
      // one.
      held_.push_front(std::move(received_));
      LeaveLoopWith(false);
      return true;
    }
    if (!HandleMessage()) return false;
  }
  return true;
}

// Waits for work.
bool Worker::Idle() {
  connection_->FlushReleases(true);
  if (loop_) return IdleInLoop();
  const int64_t wait_ns = connection_->wait_ns();
  Inbox::Outcome outcome = Inbox::Outcome::kTimeout;
  connection_->set_waiting(true);
  Py_BEGIN_ALLOW_THREADS outcome = inbox_->Next(received_, wait_ns);
  Py_END_ALLOW_THREADS connection_->set_waiting(false);
  // Runs signal handlers of user code; their exceptions are only reported.
  if (PyErr_CheckSignals() != 0) PyErr_WriteUnraisable(nullptr);
  DoChores();
  connection_->Trim();
  return outcome != Inbox::Outcome::kReady || HandleMessage();
}

bool Worker::IdleInLoop() {
  connection_->set_waiting(true);
  in_loop_ = true;
  inbox_->EnterLoop();
  SetTimer();
  Ref done = Ref::Steal(PyObject_CallMethod(loop_.get(), "run_forever", nullptr));
  inbox_->LeaveLoop();
  in_loop_ = false;
  connection_->set_waiting(false);
  if (failure_) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(failure_.get())), failure_.get());
    failure_ = {};
    return false;
  }
  if (done) return true;
  // KeyboardInterrupt and SystemExit of a task leave the loop; they are only reported.
  PyErr_WriteUnraisable(loop_.get());
  return true;
}

void Worker::LeaveLoopWith(bool failed) {
  if (failed) failure_ = TakeException();
  if (!in_loop_) return;
  Ref stopped = Ref::Steal(PyObject_CallMethod(loop_.get(), "stop", nullptr));
  if (!stopped) PyErr_WriteUnraisable(loop_.get());
}

void Worker::OnWake() {
  std::byte wakes[512];
  // The bytes carry no information: Advance() checks for all kinds of work.
  [[maybe_unused]] ssize_t got = read(connection_->channel().wake_fd(), wakes, sizeof(wakes));
  if (!in_loop_) return;
  if (!Advance()) LeaveLoopWith(true);
  SetTimer();
}

void Worker::SetTimer() {
  if (timer_set_ || !connection_->has_to_trim()) return;
  Ref set = Ref::Steal(PyObject_CallMethod(host_.get(), "set_timer", "d", kTrimSeconds));
  if (!set) PyErr_WriteUnraisable(host_.get());
  timer_set_ = static_cast<bool>(set);
}

void Worker::OnTimer() {
  timer_set_ = false;
  inbox_->Poll();
  DoChores();
  connection_->Trim();
  SetTimer();
}

bool Worker::HandleMessage() {
  switch (TypeOf(received_)) {
    case MessageType::kExecute:
      return HandleExecute();
    case MessageType::kLoad:
      return HandleLoad();
    case MessageType::kFinalize:
      ended_ = true;
      return HandleFinalize();
    default:
      RaiseBroken("a message of an unknown type");
      return false;
  }
}

bool Worker::HandleLoad() {
  LoadMessage load;
  if (!Decode(received_, load)) {
    RaiseBroken("a bad message about a load");
    return false;
  }
  arena_keep_bytes_ = load.arena_keep_bytes;
  if (load.arena_keep_bytes != 0) connection_->ConfigureArena(load.arena_keep_bytes);
  connection_->ConfigurePools(load.device_pools);
  pinned_ = std::make_shared<PinnedMemory>(load.pinned_pool_bytes);
  uses_devices_ = load.instance_kind != "CPU";
  Ref fields = Ref::Steal(PyDict_New());
  if (!fields) return false;
  const std::pair<const char*, std::string_view> texts[] = {
      {"model_file", load.model_file},       {"module_name", load.module_name},
      {"model_path", load.model_path},       {"version_path", load.version_path},
      {"model_config", load.model_config},   {"model_name", load.model_name},
      {"model_version", load.model_version}, {"instance_name", load.instance_name},
      {"instance_kind", load.instance_kind}, {"instance_device_id", load.instance_device_id},
      {"debugger", load.debugger},
  };
  for (const auto& [key, text] : texts) {
    Ref value = Ref::Steal(NewText(text));
    if (!value || PyDict_SetItemString(fields.get(), key, value.get()) != 0) return false;
  }
  const std::pair<const char*, bool> flags[] = {{"verbose_errors", load.verbose_errors},
                                                {"keeps_sequences", load.keeps_sequences}};
  for (const auto& [key, value] : flags) {
    if (PyDict_SetItemString(fields.get(), key, value ? Py_True : Py_False) != 0) return false;
  }
  static constexpr const char* kMethods[] = {"load", "auto_complete", "load_nodes", "load_template",
                                             "load_forked"};
  const bool nodes = load.mode == LoadMode::kNodes;
  const char* method = kMethods[static_cast<size_t>(load.mode)];
  Ref answer = Ref::Steal(PyObject_CallMethod(host_.get(), method, "O", fields.get()));
  if (!answer) return false;
  int code = 0;
  const char* error = nullptr;
  const char* config = nullptr;
  Py_ssize_t error_size = 0;
  Py_ssize_t config_size = 0;
  int flag = 0;
  if (!PyArg_ParseTuple(answer.get(), "is#s#p", &code, &error, &error_size, &config, &config_size, &flag))
    return false;
  LoadedMessage loaded;
  loaded.code = static_cast<StatusCode>(code);
  loaded.error = {error, static_cast<size_t>(error_size)};
  loaded.auto_completed_config = {config, static_cast<size_t>(config_size)};
  loaded.has_readiness_hook = flag != 0 && !nodes;
  loaded.wants_sessions = flag != 0 && nodes;
  loaded.saves_sequences = model_.saves_sequences;
  serving_ = loaded.code == StatusCode::kOk && load.mode != LoadMode::kAutoComplete &&
             load.mode != LoadMode::kTemplate;
  ended_ = !serving_;
  if (serving_ && loaded.has_readiness_hook) inbox_->WatchForChecks();
  Encode(outgoing_, loaded);
  const Status sent = connection_->Send(outgoing_);
  if (!sent.ok()) RaiseBroken(sent.message());
  return sent.ok();
}

bool Worker::ServeNodes() {
  ended_ = true;
  return nodes_->Serve() && HandleFinalize();
}

bool Worker::HandleFinalize() {
  serving_ = false;
  Ref done = Ref::Steal(PyObject_CallMethod(host_.get(), "finalize", nullptr));
  if (!done) return false;
  loop_ = {};
  connection_->FlushReleases(true);
  EncodeBare(outgoing_, MessageType::kFinalized);
  const Status sent = connection_->Send(outgoing_);
  connection_->Close();
  Py_BEGIN_ALLOW_THREADS inbox_->End("The model is being unloaded.");
  Py_END_ALLOW_THREADS connection_->Drain(1'000'000'000);
  model_.model = {};
  if (nodes_) nodes_->Leave();
  if (!sent.ok()) RaiseBroken(sent.message());
  return sent.ok();
}

// --- For all threads

void Worker::DoChores() {
  if (!inbox_->has_chores()) return;
  const Inbox::Chores chores = inbox_->TakeChores();
  for (const auto& message : chores.housekeeping) {
    const bool good = TypeOf(message) == MessageType::kRelease ? connection_->HandleRelease(message)
                                                               : connection_->HandleRetireSegment(message);
    if (!good) inbox_->Break("the server returned memory that was not lent");
  }
  for (const auto& message : chores.discarded) calls_.Drop(message);
  for (const auto& exchange : chores.noticed) calls_.Complete(exchange);
  for (uint64_t check : chores.checks) {
    Ref begun = Ref::Steal(
        PyObject_CallMethod(host_.get(), "check_ready", "K", static_cast<unsigned long long>(check)));
    if (!begun) PyErr_WriteUnraisable(host_.get());
  }
}

Status Worker::Place(std::span<const std::byte> bytes, TensorMessage& tensor) {
  if (bytes.size() > kInlineTensorBytes) {
    // The server may have returned memory meanwhile.
    inbox_->Poll();
    DoChores();
  }
  return connection_->Place(bytes, tensor);
}

Status Worker::PlaceFromDevice(PyObject* object, TensorMessage& message, std::vector<Ref>& holds,
                               bool stays) {
  // Other Python threads may run meanwhile, and drop their references.
  const Ref kept = Ref::Share(object);
  const PyTensor& tensor = ValueOf<PyTensor>(object);
  BRAID_ASSIGN_OR_RETURN(const auto device, DeviceOf(tensor.device_id));
  const auto address = static_cast<CudaAddress>(reinterpret_cast<uintptr_t>(tensor.data));
  const auto copy = [&](Buffer to) {
    const PinnedMemory::Thread thread = ThreadOf(tensor.device_id);
    Status copied;
    Py_BEGIN_ALLOW_THREADS pinned_->Pin(to, device, thread);
    copied = device->CopyFrom(address, {to.mutable_data(), to.size()});
    Py_END_ALLOW_THREADS return copied;
  };
  if (stays && tensor.size > 0) {
    inbox_->Poll();
    DoChores();
    // Without room on the device, the bytes go through host memory.
    if (auto block = connection_->AllocateOnDevice(device, tensor.size); block.ok()) {
      BRAID_RETURN_IF_ERROR(CopyOnDevice(*device, address, *block));
      return connection_->PlacedOnDevice(*std::move(block), message);
    }
  }
  if (tensor.size > kInlineTensorBytes) {
    inbox_->Poll();
    DoChores();
    BRAID_ASSIGN_OR_RETURN(Buffer block, connection_->AllocateOutput(tensor.size));
    BRAID_RETURN_IF_ERROR(copy(block));
    connection_->Placed(std::move(block), message);
    return OkStatus();
  }
  std::byte* bytes = nullptr;
  Ref memory = Ref::Steal(NewOwnMemory(tensor.size, &bytes));
  if (!memory) {
    PyErr_Clear();
    return UnavailableError("not enough memory for an output");
  }
  if (tensor.size > 0) BRAID_RETURN_IF_ERROR(copy({bytes, tensor.size, nullptr}));
  holds.push_back(std::move(memory));
  return connection_->Place({bytes, tensor.size}, message);
}

bool Worker::TakesDeviceInputs(const std::string& model_name, int64_t model_version) {
  const std::string question = std::to_string(model_version) + ":" + model_name;
  AskMessage ask;
  ask.topic = AskTopic::kTakesDeviceInputs;
  ask.text = question;
  Ref answer = Ref::Steal(Ask(ask, true));
  std::string_view text;
  if (answer && TextOf(answer.get(), text)) return text == "true";
  PyErr_Clear();
  return false;
}

Status Worker::Send(std::span<const std::byte> message) {
  connection_->FlushReleases(true);
  BRAID_RETURN_IF_ERROR(connection_->Send(message));
  inbox_->Sent();
  return OkStatus();
}

uint64_t Worker::HeldUpExecution() const {
  const bool in_task = current_execution_ == 0 && std::this_thread::get_id() == main_thread_;
  return in_task ? kBlocksEverything : BlockedExecution();
}

void Worker::SetNodeCall(uint64_t call) { node_call = call; }

uint64_t Worker::BlockedExecution() const {
  if (node_call != 0) return node_call;
  return std::this_thread::get_id() == main_thread_ ? current_execution_ : 0;
}

PyObject* Worker::TakeMemory(const TensorMessage& message, std::byte*& data, size_t& size,
                             std::vector<std::shared_ptr<Lending>>* lendings) {
  if (message.place == Place::kInline) {
    size = message.bytes.size();
    PyObject* memory = NewOwnMemory(size, &data);
    if (memory != nullptr && size != 0) std::memcpy(data, message.bytes.data(), size);
    return memory;
  }
  if (Connection::IsBorrowed(message)) {
    Result<std::shared_ptr<Lending>> lending = connection_->Borrow(message);
    if (!lending.ok()) {
      RaiseBroken(lending.status().message());
      return nullptr;
    }
    data = lending.value()->data();
    size = message.handle.size;
    if (lendings != nullptr) lendings->push_back(lending.value());
    return NewForeignMemory(data, size, std::move(lending).value());
  }
  Result<Buffer> buffer = connection_->TakeOwn(message);
  if (!buffer.ok()) {
    RaiseBroken(buffer.status().message());
    return nullptr;
  }
  auto keeper = std::make_shared<Buffer>(std::move(buffer).value());
  data = keeper->mutable_data();
  size = keeper->size();
  return NewForeignMemory(data, size, std::move(keeper));
}

std::shared_ptr<void> Worker::KeepUntilDone(std::shared_ptr<CudaContext> device, Buffer block) {
  return {new Buffer(std::move(block)), [this, device = std::move(device)](Buffer* kept) {
            // In a forked child the block belongs to the parent.
            if (!forked()) WhenDone(device, [kept] { delete kept; });
          }};
}

bool Worker::TakeFromDevice(const TensorMessage& message, PyTensor& tensor) {
  auto lending = connection_->BorrowOnDevice(message);
  if (!lending.ok()) {
    RaiseModelException(lending.status().message());
    return false;
  }
  CudaContext& device = (*lending)->memory().context();
  CudaAddress address = (*lending)->memory().address();
  std::shared_ptr<void> keeper = *lending;
  if (message.place == Place::kSharedDeviceMemory) {
    // User code may write to it, and other readers must not see that.
    auto own = connection_->AllocateOnDevice((*lending)->memory().shared_context(), message.handle.size);
    Status copied = own.ok() ? CopyOnDevice(device, address, *own) : own.status();
    if (!copied.ok()) {
      RaiseModelException(copied.message());
      return false;
    }
    address = DevicePool::AddressOf(*own);
    keeper = KeepUntilDone((*lending)->memory().shared_context(), *std::move(own));
  }
  return LieOnDevice(device.gpu(), address, message.handle.size, std::move(keeper), tensor);
}

bool Worker::LieOnDevice(int gpu, CudaAddress address, size_t size, std::shared_ptr<void> keeper,
                         PyTensor& tensor) {
  tensor.data = reinterpret_cast<std::byte*>(static_cast<uintptr_t>(address));
  tensor.size = size;
  tensor.device_type = kDlCuda;
  tensor.device_id = gpu;
  tensor.memory = Ref::Steal(NewForeignMemory(tensor.data, tensor.size, std::move(keeper)));
  return static_cast<bool>(tensor.memory);
}

bool Worker::BringToDevice(int gpu, SharedMapping* from, PyTensor& tensor) {
  if (tensor.device_type == kDlCuda || tensor.type == DataType::kBytes || tensor.size == 0) return true;
  const auto device = DeviceOf(gpu);
  if (!device.ok()) return true;
  auto block = connection_->AllocateOnDevice(*device, tensor.size);
  if (!block.ok()) return true;
  const CudaAddress address = DevicePool::AddressOf(*block);
  const size_t dirty = DevicePool::TakeDirty(*block);
  const PinnedMemory::Thread thread = ThreadOf(gpu);
  Status copied;
  Py_BEGIN_ALLOW_THREADS pinned_->Pin(from, *device, thread);
  copied = (*device)->CopyTo(address, {tensor.data, tensor.size}, dirty);
  Py_END_ALLOW_THREADS if (!copied.ok()) {
    RaiseModelException(copied.message());
    return false;
  }
  return LieOnDevice(gpu, address, tensor.size, KeepUntilDone(*device, *std::move(block)), tensor);
}

PyObject* Worker::MakeTensor(const TensorMessage& message, std::vector<std::shared_ptr<Lending>>* lendings) {
  PyTensor tensor;
  if (IsOnDevice(message.place)) {
    if (!TakeFromDevice(message, tensor)) return nullptr;
  } else {
    tensor.memory = Ref::Steal(TakeMemory(message, tensor.data, tensor.size, lendings));
    if (!tensor.memory) return nullptr;
  }
  tensor.type = message.type;
  tensor.shape = message.shape;
  if (message.type != DataType::kBytes) {
    const auto size = ByteSize(message.type, message.shape);
    if (!size || *size != tensor.size) {
      RaiseBroken("the bytes of a tensor do not fit its shape");
      return nullptr;
    }
  }
  return NewTensor(std::move(tensor));
}

void Worker::SendLog(uint8_t level, std::string_view file, uint32_t line, std::string_view text) {
  // Without a connection the line is lost; logging must not fail.
  static_cast<void>(EnsureConversation());
  LogMessage message{level, file, line, text};
  std::vector<std::byte> encoded;
  Encode(encoded, message);
  static_cast<void>(connection_->Send(encoded));
  inbox_->Sent();
}

void Worker::SendReadiness(uint64_t check_id, bool ready, std::string_view reason) {
  ReadinessMessage message{check_id, ready, reason};
  std::vector<std::byte> encoded;
  Encode(encoded, message);
  // If the model is being unloaded, the result is not needed.
  static_cast<void>(connection_->Send(encoded));
}

PyObject* Worker::Ask(AskMessage& message, bool wait) {
  if (const Status status = EnsureConversation(); !status.ok()) return RaiseModelException(status.message());
  std::shared_ptr<Exchange> exchange;
  if (wait) {
    exchange = inbox_->Begin(Exchange::Notice::kNone, false);
    message.ask_id = exchange->id();
  }
  std::vector<std::byte> encoded;
  Encode(encoded, message);
  const Status sent = Send(encoded);
  if (!sent.ok()) {
    if (wait) inbox_->Forget(*exchange);
    return RaiseModelException(sent.message());
  }
  if (!wait) Py_RETURN_NONE;
  while (!inbox_->Take(*exchange, encoded)) {
    Inbox::Outcome outcome = Inbox::Outcome::kReady;
    Py_BEGIN_ALLOW_THREADS outcome = inbox_->Wait(*exchange);
    Py_END_ALLOW_THREADS DoChores();
    if (outcome == Inbox::Outcome::kEnded) return RaiseModelException(inbox_->why());
  }
  AnswerMessage answer;
  if (!Decode(encoded, answer)) {
    inbox_->Break("a bad answer");
    return RaiseModelException(inbox_->why());
  }
  return answer.code == StatusCode::kOk ? NewText(answer.text) : RaiseModelException(answer.error);
}

}  // namespace braid
