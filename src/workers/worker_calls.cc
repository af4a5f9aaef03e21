#include "workers/worker_calls.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/guard.h"
#include "serving/faults.h"
#include "serving/request_check.h"
#include "serving/servable_stream.h"
#include "workers/parameters_json.h"

namespace braid {
namespace {

// A thread that encodes a response may have been preempted.
constexpr int64_t kLongestSendNs = 10'000'000'000;

// Outputs of graphs have the types that user code gives them; Python models need types that arrays support.
Status CheckOutput(const Tensor& output) {
  if (output.type == DataType::kCustom || output.type == DataType::kInvalid) {
    return InvalidArgumentError(std::string("output '").append(output.name) + "' has the datatype '" +
                                std::string(TypeName(output)) + "', which Python models do not support");
  }
  if (output.type != DataType::kBytes && ByteSize(output.type, output.shape) != output.data.size()) {
    return InternalError(std::string("output '").append(output.name) + "' has " +
                         std::to_string(output.data.size()) + " bytes, which do not fit its datatype " +
                         std::string(WireName(output.type)) + " and shape " + ShapeToString(output.shape));
  }
  return OkStatus();
}

}  // namespace

// One call: the sink for its request's responses, or for those of a run of a graph.
class WorkerCalls::Call final : public ResponseSink, public StreamSink {
 public:
  Call(std::shared_ptr<WorkerCalls> calls, uint64_t id) : calls_(std::move(calls)), id_(id) {}
  void Respond(std::optional<InferenceResponse> response, bool final) override {
    calls_->Answer(*this, std::move(response), final);
  }
  void Respond(InferenceResponse response, const std::string&) override {
    std::erase_if(response.outputs, [this](const Tensor& output) {
      return !wanted_.empty() && std::ranges::find(wanted_, output.name) == wanted_.end();
    });
    if (!response.outputs.empty()) calls_->Answer(*this, std::move(response), false);
  }
  void OnWantsInput() override {}
  void End(Status status) override {
    {
      MutexLock lock(mutex_);
      if (!refused_.ok()) status = std::move(refused_);
    }
    if (status.ok()) return calls_->Answer(*this, std::nullopt, true);
    InferenceResponse failed;
    failed.status = std::move(status);
    calls_->Answer(*this, std::move(failed), true);
  }
  // Runs a graph whose packets are the responses. Errors: no run begins; End() is not called then.
  Status Stream(InferenceRequest& request) {
    const ServableHandle* servable = request.servable.get();
    BRAID_RETURN_IF_ERROR(CheckRequestedOutputs(servable->get().info(), request));
    wanted_ = request.requested_outputs;
    BRAID_ASSIGN_OR_RETURN(stream_, servable->get().OpenStream(request, *this));
    // The run may end, and release this call, at any time from now on.
    const auto stream = stream_;
    cancellation_.SetListener([weak = std::weak_ptr(stream)] {
      if (const auto running = weak.lock()) running->Cancel();
    });
    Status pushed = stream->Push(request);
    if (pushed.ok()) {
      stream->CloseInputs();
    } else {
      {
        MutexLock lock(mutex_);
        refused_ = std::move(pushed);
      }
      stream->Cancel();
    }
    return OkStatus();
  }
  uint64_t id() const { return id_; }
  Cancellation& cancellation() { return cancellation_; }

 private:
  const std::shared_ptr<WorkerCalls> calls_;  // keeps it alive after the worker's death
  const uint64_t id_;
  Cancellation cancellation_;
  std::vector<std::string> wanted_;  // outputs of a stream; empty: all
  std::shared_ptr<ServableStream> stream_;
  Mutex mutex_;
  Status refused_ BRAID_GUARDED_BY(mutex_);  // the error of the stream's only message
};

WorkerCalls::WorkerCalls(std::shared_ptr<Channel> channel, std::shared_ptr<WorkerMemory> memory,
                         const Catalog& catalog, SharedArrays* arrays)
    : channel_(std::move(channel)),
      memory_(std::move(memory)),
      catalog_(catalog),
      arrays_(arrays),
      reader_(catalog) {}

WorkerCalls::~WorkerCalls() = default;

size_t WorkerCalls::pending() const {
  MutexLock lock(mutex_);
  return calls_.size();
}

struct WorkerCalls::NewCall {
  std::shared_ptr<Call> call;  // shared with the table of calls
  std::unique_ptr<InferenceRequest> request;
  // Of the request that the call is made for; may be null.
  std::shared_ptr<const CallChain> chain;
  std::shared_ptr<RequestTrace> trace;
  // See CallMessage.
  bool decoupled = false;
  bool device_outputs = false;
  int64_t awaits_since_ns = 0;  // see OnDemandLoader::Load(); 0: it did not wait

  // Answers an error from before a servable had the request.
  void Refuse(const Status& status) const {
    InferenceResponse response;
    response.status = status.WithPrefix("Model " + request->model_name + " - Error when running inference: ");
    call->Respond(std::move(response), true);
  }
};

Status WorkerCalls::Begin(const CallMessage& message, std::shared_ptr<const CallChain> chain,
                          std::shared_ptr<RequestTrace> trace, int64_t begun_ns) {
  const RetryingAllocation retrying;
  // Decoded first, so that memory lent by the worker returns in any case.
  BRAID_ASSIGN_OR_RETURN(auto request, MakeRequest(message));
  request->start_ns = std::max(std::min(message.called_ns, request->start_ns), begun_ns);
  auto call = std::make_shared<Call>(shared_from_this(), message.request.id);
  size_t pending = 0;
  {
    MutexLock lock(mutex_);
    if (!calls_.emplace(call->id(), call).second) {
      return InvalidArgumentError("the worker sent a duplicate call id");
    }
    pending = calls_.size();
  }
  NewCall started{std::move(call),  std::move(request), std::move(chain),
                  std::move(trace), message.decoupled,  message.device_outputs};
  if (pending > kMostPending) {
    started.Refuse(UnavailableError("the instance has reached the limit of " + std::to_string(kMostPending) +
                                    " pending calls"));
  } else if (arrays_ != nullptr && message.model_name == SharedArrays::kModelName) {
    started.request->sink = started.call.get();
    arrays_->Call(this, std::move(started.request));
  } else {
    Start(std::move(started), reader_);
  }
  return OkStatus();
}

void WorkerCalls::Start(NewCall started, CatalogReader& reader) {
  Status found = FindServable(started, reader);
  if (found.fault() == Fault::kLoadsOnDemand) {
    StartAfterLoad(std::move(started));
    return;
  }
  InferenceRequest& request = *started.request;
  if (found.ok()) {
    const ServableInfo& info = request.servable->get().info();
    // The worker has asked whether the model takes such inputs, but the model may have been replaced since.
    if (!info.device_inputs && std::any_of(request.inputs.begin(), request.inputs.end(),
                                           [](const Tensor& input) { return input.data.on_device(); })) {
      found = UnavailableError("it no longer accepts inputs on a GPU after its reload");
    }
  }
  if (!found.ok()) {
    started.Refuse(found);
    return;
  }
  Servable& callee = request.servable->get();
  const ServableInfo& info = callee.info();
  if (started.device_outputs && info.device_outputs) {
    request.device_outputs = request.requested_outputs;
    if (request.device_outputs.empty()) {
      for (const TensorSpec& output : info.outputs) request.device_outputs.push_back(output.name);
    }
  }
  if (started.trace != nullptr) request.trace = started.trace->StartChild(info.name, info.version);
  request.call_chain = std::move(started.chain);
  request.cancellation = std::shared_ptr<Cancellation>(started.call, &started.call->cancellation());
  if (started.decoupled && callee.takes_streams()) {
    // Keeps the call alive: the run may end it.
    const std::shared_ptr<Call> call = started.call;
    if (const Status opened = call->Stream(request); !opened.ok()) call->End(opened);
    return;
  }
  request.sink = started.call.get();
  callee.Begin(std::move(started.request));
}

void WorkerCalls::StartAfterLoad(NewCall started) {
  if (started.awaits_since_ns == 0) started.awaits_since_ns = SteadyNowNs();
  const std::string model = started.request->model_name;
  const int64_t since_ns = started.awaits_since_ns;
  // std::function must be copyable, so the call travels in a shared pointer.
  auto kept = std::make_shared<NewCall>(std::move(started));
  catalog_.on_demand_loader()->Load(model, since_ns, [self = shared_from_this(), kept](Status loaded) {
    const RetryingAllocation retrying;  // the worker waits for this
    if (loaded.ok() && kept->call->cancellation().cancelled())
      loaded = CancelledError("the call was cancelled");
    if (!loaded.ok()) {
      kept->Refuse(loaded);
      return;
    }
    CatalogReader reader(self->catalog_);
    self->Start(std::move(*kept), reader);
  });
}

Result<std::unique_ptr<InferenceRequest>> WorkerCalls::MakeRequest(const CallMessage& message) {
  auto request = std::make_unique<InferenceRequest>();
  const RequestMessage& from = message.request;
  request->start_ns = SteadyNowNs();
  request->id = from.request_id;
  request->model_name = message.model_name;
  request->model_version = message.model_version;
  if (const auto* number = std::get_if<uint64_t>(&from.correlation_id)) {
    request->correlation_id = *number;
  } else {
    request->correlation_id = std::string(std::get<std::string_view>(from.correlation_id));
  }
  request->sequence_start = (from.flags & 1u) != 0;
  request->sequence_end = (from.flags & 2u) != 0;
  request->timeout_us = from.timeout_us;
  request->parameters = ParametersFromJson(from.parameters_json);
  request->requested_outputs.assign(from.requested_outputs.begin(), from.requested_outputs.end());
  request->inputs.reserve(from.inputs.size());
  WorkerMemory::Returned returned;
  for (const TensorMessage& input : from.inputs) {
    Tensor& tensor = request->inputs.emplace_back();
    tensor.name = input.name;
    tensor.type = input.type;
    tensor.shape = input.shape;
    BRAID_ASSIGN_OR_RETURN(tensor.data, memory_->Take(input, returned, true));
  }
  return request;
}

Status WorkerCalls::FindServable(NewCall& call, CatalogReader& reader) {
  const std::string& name = call.request->model_name;
  auto servable = reader.Find(name, call.request->model_version);
  if (!servable.ok()) {
    if (servable.status().fault() == Fault::kLoadsOnDemand) return servable.status();
    if (!catalog_.Knows(name, call.request->model_version)) return servable.status();
    return UnavailableError("Failed for execute the inference request. Model '" + name + "' is not ready.");
  }
  if ((*servable)->get().info().decoupled && !call.decoupled) {
    return UnsupportedError(
        "Model " + name +
        " is using the decoupled. The current BLS request call doesn't support models using the decoupled "
        "transaction policy. Please use 'decoupled=True' argument to the 'exec' or 'async_exec' calls for "
        "decoupled models.'");
  }
  call.request->servable = std::move(*servable);
  return OkStatus();
}

void WorkerCalls::Cancel(const CancelCallMessage& message) {
  std::shared_ptr<Call> call;
  {
    MutexLock lock(mutex_);
    auto it = calls_.find(message.call_id);
    if (it == calls_.end()) return;
    call = it->second;
  }
  call->cancellation().Cancel();
}

void WorkerCalls::Abandon() {
  responses_.Close();
  std::vector<std::shared_ptr<Call>> calls;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, call] : calls_) calls.push_back(call);
  }
  for (const auto& call : calls) call->cancellation().Cancel();
  if (arrays_ != nullptr) arrays_->Leave(this);
  // Sending never blocks, so this wait is short.
  responses_.WaitUntilEmpty(SteadyNowNs() + kLongestSendNs);
}

void WorkerCalls::Answer(Call& call, std::optional<InferenceResponse> response, bool final) {
  std::shared_ptr<Call> ended;  // destroyed last, perhaps with this object
  if (final) {
    MutexLock lock(mutex_);
    auto it = calls_.find(call.id());
    ended = std::move(it->second);
    calls_.erase(it);
  }
  if (!responses_.Enter()) return;
  Pass(call, std::move(response), final);
  responses_.Leave();
}

void WorkerCalls::Pass(Call& call, std::optional<InferenceResponse> response, bool final) {
  if (stuck()) return;
  if (!final && call.cancellation().cancelled()) return;
  Status sent = Guarded([&] { return Send(call.id(), response, final); });
  if (sent.ok()) return;
  // If the response cannot be sent, an error replaces it. If that fails too, the worker is stuck and will be
  // ended.
  InferenceResponse failed;
  failed.status = std::move(sent);
  if (Send(call.id(), failed, final).ok()) return;
  stuck_.store(true, std::memory_order_release);
  channel_->Interrupt();
}

Status WorkerCalls::Send(uint64_t id, const std::optional<InferenceResponse>& response, bool final) {
  ResponseMessage message;
  message.request_id = id;
  message.final = final;
  message.has_response = response.has_value();
  std::string parameters;
  WorkerMemory::Loan loan(*memory_);
  if (response && !response->status.ok()) {
    message.code = response->status.code();
    message.error = response->status.message();
  } else if (response) {
    if (!response->parameters.empty()) parameters = ParametersToJson(response->parameters);
    message.parameters_json = parameters;
    const std::vector<Tensor>& outputs = response->outputs;
    for (const Tensor& output : outputs) BRAID_RETURN_IF_ERROR(CheckOutput(output));
    // Checked before the first loan, which takes another reference.
    boost::container::small_vector<bool, 16> sole(outputs.size(), true);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Buffer& data = outputs[i].data;
      if (data.size() > kInlineTensorBytes || data.on_device()) sole[i] = IsSoleHolder(outputs, i);
    }
    message.outputs.reserve(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& output = outputs[i];
      TensorMessage& tensor = message.outputs.emplace_back();
      tensor.name = output.name;
      tensor.type = output.type;
      tensor.shape = output.shape;
      BRAID_RETURN_IF_ERROR(loan.Lend(output.data, sole[i], tensor));
    }
  }
  thread_local std::vector<std::byte> encoded;
  Encode(encoded, message, MessageType::kCallResponse);
  BRAID_RETURN_IF_ERROR(channel_->Send(encoded));
  loan.Keep();
  return OkStatus();
}

}  // namespace braid
