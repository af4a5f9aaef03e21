// FakeGraph: a graph for tests of the protocols. It takes streams, and sends responses on demand.
//
//   auto graph = std::make_shared<FakeGraph>("graph");
//   catalog.Publish(graph);
//   ... a client writes ...
//   auto stream = graph->WaitForStream(0);   // the first conversation
//   stream->WaitForMessages(1);
//   stream->Send(FakeGraph::Text("hello"), "id-1");
//   stream->End(OkStatus());
//
// By default it echoes the inputs of each message, one response for each. The conversation ends when its
// inputs are closed or it is cancelled. After Hold(), the test does all that.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "serving/servable.h"

namespace braid {

class FakeGraph final : public Servable {
 public:
  // The contents of a message.
  struct Message {
    std::string id;
    Parameters parameters;
    std::vector<Tensor> inputs;
  };

  class Stream final : public ServableStream, public std::enable_shared_from_this<Stream> {
   public:
    Stream(FakeGraph& graph, std::unique_ptr<ServableHandle> handle, StreamSink& sink, bool held)
        : graph_(graph), handle_(std::move(handle)), sink_(&sink), held_(held) {}

    // ---- The test's side ----

    // Sends one response, on this thread; nothing after End().
    void Send(Tensor output, const std::string& id = "", Parameters parameters = {}) {
      std::lock_guard one(sink_mutex_);
      if (sink_ == nullptr) return;
      InferenceResponse response;
      response.model_name = graph_.info().name;
      response.model_version = 1;
      response.parameters = std::move(parameters);
      response.outputs.push_back(std::move(output));
      sink_->Respond(std::move(response), id);
    }
    // Ends the conversation, once.
    void End(Status status) {
      std::unique_ptr<ServableHandle> handle;
      StreamSink* sink = nullptr;
      {
        std::lock_guard one(sink_mutex_);
        sink = std::exchange(sink_, nullptr);
        handle = std::move(handle_);
      }
      if (sink == nullptr) return;
      handle.reset();
      sink->End(std::move(status));
      {
        std::lock_guard lock(mutex_);
        ended_ = true;
        changed_.notify_all();
      }
    }
    void SetWantsInput(bool wants) {
      {
        std::lock_guard lock(mutex_);
        wants_input_ = wants;
      }
      std::lock_guard one(sink_mutex_);
      if (wants && sink_ != nullptr) sink_->OnWantsInput();
    }
    // From now on refuses messages with this status.
    void SetFault(Status fault) {
      std::lock_guard lock(mutex_);
      fault_ = std::move(fault);
    }

    // These block until the condition holds, and return false after a minute.
    bool WaitForMessages(size_t count) {
      return Wait([&] { return messages_.size() >= count; });
    }
    bool WaitForPause(bool paused) {
      return Wait([&] { return paused_ == paused; });
    }
    bool WaitForClose() {
      return Wait([&] { return closed_; });
    }
    bool WaitForCancel() {
      return Wait([&] { return cancelled_; });
    }
    bool WaitForEnd() {
      return Wait([&] { return ended_; });
    }
    std::vector<Message> messages() const {
      std::lock_guard lock(mutex_);
      return messages_;
    }
    size_t pushed() const {
      std::lock_guard lock(mutex_);
      return messages_.size();
    }
    bool paused() const {
      std::lock_guard lock(mutex_);
      return paused_;
    }
    bool cancelled() const {
      std::lock_guard lock(mutex_);
      return cancelled_;
    }

    // ---- ServableStream ----

    Status Push(InferenceRequest& message) override {
      Message taken{std::move(message.id), std::move(message.parameters), std::move(message.inputs)};
      {
        std::lock_guard lock(mutex_);
        if (!fault_.ok()) return fault_;
        messages_.push_back(taken);
        changed_.notify_all();
      }
      if (held_) return OkStatus();
      for (Tensor& input : taken.inputs) Send(std::move(input), taken.id);
      return OkStatus();
    }
    void CloseInputs() override {
      Note(closed_);
      if (!held_) End(OkStatus());
    }
    void Cancel() override {
      Note(cancelled_);
      if (!held_) End(Status(StatusCode::kCancelled, "cancelled"));
    }
    void SetPaused(bool paused) override {
      std::lock_guard lock(mutex_);
      paused_ = paused;
      changed_.notify_all();
    }
    bool wants_input() const override {
      std::lock_guard lock(mutex_);
      return wants_input_;
    }

   private:
    template <class Condition>
    bool Wait(Condition condition) {
      std::unique_lock lock(mutex_);
      return changed_.wait_for(lock, std::chrono::minutes(1), condition);
    }
    void Note(bool& what) {
      std::lock_guard lock(mutex_);
      what = true;
      changed_.notify_all();
    }

    FakeGraph& graph_;
    // Calls to the sink come one at a time, and may come from within calls to this object.
    std::recursive_mutex sink_mutex_;
    std::unique_ptr<ServableHandle> handle_;  // guarded by sink_mutex_
    StreamSink* sink_;                        // guarded by sink_mutex_
    const bool held_;

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    // Guarded by mutex_:
    std::vector<Message> messages_;
    Status fault_;
    bool wants_input_ = true;
    bool paused_ = false;
    bool closed_ = false;
    bool cancelled_ = false;
    bool ended_ = false;
  };

  // Two input streams and one output stream.
  static ServableInfo Info(std::string name) {
    ServableInfo info;
    info.name = std::move(name);
    info.kind = ServableKind::kGraph;
    info.dialect = Dialect::kOvms;
    info.platform = "OpenVINO";
    for (const char* input : {"in", "other"}) info.inputs.emplace_back().name = input;
    info.outputs.emplace_back().name = "out";
    return info;
  }
  static Tensor Text(std::string_view text) {
    Tensor tensor;
    tensor.name = "out";
    tensor.type = DataType::kUint8;
    tensor.shape = {static_cast<int64_t>(text.size())};
    tensor.data = CopyToHeap(std::as_bytes(std::span(text.data(), text.size())));
    return tensor;
  }

  explicit FakeGraph(std::string name) : Servable(Info(std::move(name))) {}

  // From now on the test answers conversations.
  void Hold() {
    std::lock_guard lock(mutex_);
    hold_ = true;
  }
  // From now on OpenStream() fails with this status.
  void RefuseStreams(Status status) {
    std::lock_guard lock(mutex_);
    refusal_ = std::move(status);
  }
  // Answers requests instead of an echo of their inputs.
  void set_responder(std::function<void(std::unique_ptr<InferenceRequest>)> responder) {
    responder_ = std::move(responder);
  }
  // Returns null after a minute.
  std::shared_ptr<Stream> WaitForStream(size_t index) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::minutes(1), [&] { return streams_.size() > index; })) {
      return nullptr;
    }
    return streams_[index];
  }
  Parameters first_parameters() const {
    std::lock_guard lock(mutex_);
    return first_parameters_;
  }

  BufferAllocator& input_allocator() override { return allocator_; }
  void Infer(std::unique_ptr<InferenceRequest> request) override {
    if (responder_) {
      responder_(std::move(request));
      return;
    }
    InferenceResponse response;
    response.model_name = info_.name;
    response.model_version = 1;
    response.outputs = request->inputs;
    response.parameters = request->parameters;
    request->Respond(std::move(response), true);
  }
  bool takes_streams() const override { return true; }
  Result<std::shared_ptr<ServableStream>> OpenStream(InferenceRequest& first, StreamSink& sink) override {
    std::lock_guard lock(mutex_);
    if (!refusal_.ok()) return refusal_;
    first_parameters_ = first.parameters;
    auto stream = std::make_shared<Stream>(*this, std::move(first.servable), sink, hold_);
    streams_.push_back(stream);
    changed_.notify_all();
    return std::shared_ptr<ServableStream>(stream);
  }
  Readiness readiness() const override { return {}; }
  void Stop(int64_t) override {}

 private:
  HeapAllocator allocator_;
  std::function<void(std::unique_ptr<InferenceRequest>)> responder_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::vector<std::shared_ptr<Stream>> streams_;
  Parameters first_parameters_;
  Status refusal_;
  bool hold_ = false;
};

}  // namespace braid
