// One channel and one completion queue a thread. Requests are ready-made buffers that are sent again and
// again, so a request costs the generator no serialization; responses are compared where gRPC put them.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "arrivals.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "driver.h"
#include "grpc_messages.h"
#include "request_cycle.h"

namespace braid::bench {
namespace {

constexpr std::chrono::seconds kReadyTimeout{1};
constexpr std::chrono::milliseconds kPauseWhenUnavailable{1};

std::chrono::system_clock::time_point After(double seconds) {
  return std::chrono::system_clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

grpc::ByteBuffer ToBuffer(const std::string& message) {
  const grpc::Slice slice(message);
  return grpc::ByteBuffer(&slice, 1);
}

// A received message in the pieces that it came in; reused, so that reading allocates little.
class ReceivedMessage {
 public:
  void Load(const grpc::ByteBuffer& buffer) {
    slices_.clear();
    pieces_.clear();
    if (!buffer.Dump(&slices_).ok()) return;
    for (const grpc::Slice& slice : slices_) {
      pieces_.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
  }
  const Pieces& pieces() const { return pieces_; }

 private:
  std::vector<grpc::Slice> slices_;
  Pieces pieces_;
};

using GrpcCycle = RequestCycle<grpc::ByteBuffer>;

// A request in flight, which is the tag of its operation.
struct UnarySlot {
  explicit UnarySlot(GrpcCycle requests) : requests(std::move(requests)) {}

  GrpcCycle requests;
  grpc::GenericStub* stub = nullptr;          // of its connection
  const grpc::ByteBuffer* request = nullptr;  // the one in flight
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> call;
  grpc::ByteBuffer response;
  grpc::Status status;
  int64_t begin_ns = 0;
  uint64_t count = 0;
};

struct StreamSlot;

struct StreamTag {
  enum class Operation { kStart, kWrite, kRead, kFinish };
  StreamSlot* slot = nullptr;
  Operation operation = Operation::kStart;
};

struct StreamSlot {
  explicit StreamSlot(GrpcCycle requests) : request(requests.Next()) {}

  const grpc::ByteBuffer request;
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
  grpc::ByteBuffer response;
  grpc::Status status;
  StreamTag start;
  StreamTag write;
  StreamTag read;
  StreamTag finish;
  int64_t begin_ns = 0;
  uint64_t bytes_received = 0;
  int received = 0;  // responses to the request in flight
  bool writing = false;
  bool answered = false;  // the request in flight has all its responses
  bool reading_ended = false;
  bool finishing = false;
  uint64_t count = 0;
};

class GrpcDriver : public Driver {
 public:
  explicit GrpcDriver(const Options& options)
      : options_(options),
        requests_(options, [](const Options& one) { return ToBuffer(EncodeInferRequest(one)); }),
        channel_(MakeChannel()) {}

  bool Ready() override {
    return AskReady(kServerReadyMethod, "") &&
           AskReady(kModelReadyMethod, EncodeModelReadyRequest(options_.model()));
  }

  void Run(int slots, const Window& window, Recording& recording) override {
    if (options_.protocol == Protocol::kGrpcStream) {
      RunStreams(slots, window, recording);
    } else {
      if (options_.shared && !RegisterRegion(recording)) return;
      options_.rate > 0 ? RunOpenLoad(slots, window, recording) : RunUnary(slots, window, recording);
    }
  }

 private:
  std::shared_ptr<grpc::Channel> MakeChannel() const {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    // Channels to one address share a connection otherwise.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(options_.host + ":" + options_.port, grpc::InsecureChannelCredentials(),
                                     arguments);
  }

  bool RegisterRegion(Recording& recording) {
    grpc::ByteBuffer response;
    const grpc::Status status = Ask(kRegisterMethod, EncodeRegisterRequest(*options_.shared), response);
    if (!status.ok()) recording.Failure("cannot register shared memory: " + status.error_message());
    return status.ok();
  }

  bool AskReady(const char* method, const std::string& message) {
    grpc::ByteBuffer response;
    if (!Ask(method, message, response).ok()) return false;
    ReceivedMessage received;
    received.Load(response);
    return DecodeReady(received.pieces());
  }

  grpc::Status Ask(const char* method, const std::string& message, grpc::ByteBuffer& response) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kReadyTimeout);
    grpc::CompletionQueue queue;
    grpc::Status status;
    auto call = stub.PrepareUnaryCall(&context, method, ToBuffer(message), &queue);
    call->StartCall();
    call->Finish(&response, &status, this);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  }

  // `begin_ns`: since when the request has been waiting to be sent; 0: now.
  void StartUnary(grpc::GenericStub& stub, grpc::CompletionQueue& queue, UnarySlot& slot,
                  int64_t begin_ns = 0) const {
    slot.context = std::make_unique<grpc::ClientContext>();
    slot.context->set_deadline(After(options_.timeout_s));
    slot.response.Clear();
    slot.status = grpc::Status();
    if (options_.shared) options_.shared->SpoilOutputs();
    slot.request = &slot.requests.Next();
    slot.begin_ns = begin_ns != 0 ? begin_ns : SteadyNowNs();
    slot.call = stub.PrepareUnaryCall(slot.context.get(), kModelInferMethod, *slot.request, &queue);
    slot.call->StartCall();
    slot.call->Finish(&slot.response, &slot.status, &slot);
  }

  void RunUnary(int slot_count, const Window& window, Recording& recording) {
    std::deque<grpc::GenericStub> stubs;
    for (int i = 0; i < std::min(options_.connections, slot_count); ++i) stubs.emplace_back(MakeChannel());
    grpc::CompletionQueue queue;
    std::deque<UnarySlot> slots;
    for (int i = 0; i < slot_count; ++i) {
      UnarySlot& slot = slots.emplace_back(requests_.Make());
      slot.stub = &stubs[static_cast<size_t>(i) % stubs.size()];
      StartUnary(*slot.stub, queue, slot);
    }
    size_t live = slots.size();
    ReceivedMessage message;
    void* tag = nullptr;
    bool ok = false;
    while (live > 0 && queue.Next(&tag, &ok)) {
      UnarySlot& slot = *static_cast<UnarySlot*>(tag);
      TakeAnswer(slot, message, window, recording);
      if (window.stop.load(std::memory_order_relaxed)) {
        --live;
      } else {
        StartUnary(*slot.stub, queue, slot);
      }
    }
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) {
    }
  }

  void TakeAnswer(UnarySlot& slot, ReceivedMessage& message, const Window& window,
                  Recording& recording) const {
    const int64_t now_ns = SteadyNowNs();
    if (slot.status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      recording.Unanswered();
      return;
    }
    if (!slot.status.ok()) {
      recording.Failure("gRPC " + std::to_string(slot.status.error_code()) + ": " +
                        slot.status.error_message());
      if (slot.status.error_code() == grpc::StatusCode::UNAVAILABLE)
        std::this_thread::sleep_for(kPauseWhenUnavailable);
      return;
    }
    message.Load(slot.response);
    auto outputs = DecodeInferResponse(message.pieces());
    if (outputs.ok() && options_.shared) options_.shared->FillIn(*outputs);
    const Status status =
        outputs.ok() ? options_.expectation.Check(*outputs, slot.count++) : outputs.status();
    if (status.ok()) {
      recording.Success(window, slot.begin_ns, now_ns, slot.request->Length(), slot.response.Length(), 1);
    } else {
      recording.Failure(status.message());
    }
  }

  // One thread sends when the time has come, another takes the answers. Requests for which no slot is free
  // wait, and are sent by the thread that frees one.
  void RunOpenLoad(int slot_count, const Window& window, Recording& recording) const {
    grpc::GenericStub stub(MakeChannel());
    grpc::CompletionQueue queue;
    std::deque<UnarySlot> slots;
    Mutex mutex;
    std::vector<UnarySlot*> idle;
    std::deque<int64_t> waiting;  // since when
    for (int i = 0; i < slot_count; ++i) idle.push_back(&slots.emplace_back(requests_.Make()));
    std::atomic<bool> sent_all{false};
    int64_t next_ns = 0;  // the sender's until it has ended
    std::thread sender = StartThread("brd-load-send", [&] {
      Arrivals arrivals(options_.rate / options_.threads, NextSeed(), SteadyNowNs());
      while (!window.stop.load(std::memory_order_relaxed)) {
        const int64_t now_ns = SteadyNowNs();
        if (now_ns < arrivals.next_ns()) {
          std::this_thread::sleep_for(
              std::chrono::nanoseconds(std::min<int64_t>(arrivals.next_ns() - now_ns, 100'000'000)));
          continue;
        }
        UnarySlot* slot = nullptr;
        {
          MutexLock lock(mutex);
          if (idle.empty()) {
            waiting.push_back(arrivals.next_ns());
          } else {
            slot = idle.back();
            idle.pop_back();
          }
        }
        if (slot != nullptr) StartUnary(stub, queue, *slot, arrivals.next_ns());
        arrivals.Advance();
      }
      next_ns = arrivals.next_ns();
      sent_all = true;
    });
    ReceivedMessage message;
    for (bool done = false; !done;) {
      void* tag = nullptr;
      bool ok = false;
      const auto deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(50);
      if (queue.AsyncNext(&tag, &ok, deadline) == grpc::CompletionQueue::GOT_EVENT) {
        UnarySlot& slot = *static_cast<UnarySlot*>(tag);
        TakeAnswer(slot, message, window, recording);
        int64_t since_ns = 0;
        {
          MutexLock lock(mutex);
          if (waiting.empty() || window.stop.load(std::memory_order_relaxed)) {
            idle.push_back(&slot);
          } else {
            since_ns = waiting.front();
            waiting.pop_front();
          }
        }
        if (since_ns != 0) StartUnary(stub, queue, slot, since_ns);
      }
      MutexLock lock(mutex);
      done = sent_all && idle.size() == slots.size();
    }
    sender.join();
    if (!waiting.empty()) next_ns = waiting.front();
    if (!RateHeld(next_ns, window.end_ns.load(std::memory_order_relaxed))) recording.RateNotHeld();
    queue.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) {
    }
  }

  void RunStreams(int slot_count, const Window& window, Recording& recording) {
    grpc::GenericStub stub(MakeChannel());
    grpc::CompletionQueue queue;
    std::vector<std::unique_ptr<StreamSlot>> slots;
    for (int i = 0; i < slot_count; ++i) {
      auto slot = std::make_unique<StreamSlot>(requests_.Make());
      slot->start = {slot.get(), StreamTag::Operation::kStart};
      slot->write = {slot.get(), StreamTag::Operation::kWrite};
      slot->read = {slot.get(), StreamTag::Operation::kRead};
      slot->finish = {slot.get(), StreamTag::Operation::kFinish};
      slot->context.set_deadline(After(options_.warmup_s + options_.duration_s + options_.timeout_s));
      slot->call = stub.PrepareCall(&slot->context, kModelStreamInferMethod, &queue);
      slot->call->StartCall(&slot->start);
      slots.push_back(std::move(slot));
    }
    size_t live = slots.size();
    ReceivedMessage message;
    void* tag = nullptr;
    bool ok = false;
    while (live > 0 && queue.Next(&tag, &ok)) {
      const int64_t now_ns = SteadyNowNs();
      const StreamTag& event = *static_cast<StreamTag*>(tag);
      StreamSlot& slot = *event.slot;
      switch (event.operation) {
        case StreamTag::Operation::kFinish:
          // A stream that the generator itself cancelled after its last response ends as it should.
          if (!slot.answered) recording.Failure("stream ended: " + slot.status.error_message());
          --live;
          break;
        case StreamTag::Operation::kStart:
          if (ok) {
            SendOnStream(slot);
            slot.call->Read(&slot.response, &slot.read);
          } else {
            slot.reading_ended = true;
            FinishStream(slot);
          }
          break;
        case StreamTag::Operation::kWrite:
          slot.writing = false;
          if (slot.reading_ended) {
            FinishStream(slot);
          } else if (slot.answered) {
            ContinueStream(slot, window);
          }
          break;
        case StreamTag::Operation::kRead:
          if (ok) {
            TakeResponse(slot, message, window, recording, now_ns);
          } else {
            slot.reading_ended = true;
            FinishStream(slot);
          }
          break;
      }
    }
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) {
    }
  }

  void SendOnStream(StreamSlot& slot) const {
    slot.received = 0;
    slot.bytes_received = 0;
    slot.answered = false;
    slot.writing = true;
    slot.begin_ns = SteadyNowNs();
    slot.call->Write(slot.request, &slot.write);
  }

  // Asks for the status, once, when neither a read nor a write is under way.
  static void FinishStream(StreamSlot& slot) {
    if (slot.writing || slot.finishing) return;
    slot.finishing = true;
    slot.call->Finish(&slot.status, &slot.finish);
  }

  // The request is answered and its write is done: sends the next one, or ends the stream.
  void ContinueStream(StreamSlot& slot, const Window& window) const {
    if (window.stop.load(std::memory_order_relaxed)) {
      // The read under way ends with this, and then the stream.
      slot.context.TryCancel();
    } else {
      SendOnStream(slot);
    }
  }

  void TakeResponse(StreamSlot& slot, ReceivedMessage& message, const Window& window, Recording& recording,
                    int64_t now_ns) const {
    message.Load(slot.response);
    slot.bytes_received += slot.response.Length();
    ++slot.received;
    const auto outputs = DecodeStreamResponse(message.pieces());
    const Status status =
        outputs.ok() ? options_.expectation.Check(*outputs, slot.count++) : outputs.status();
    if (!status.ok()) recording.Failure(status.message());
    // An error is the only answer that its request gets.
    const bool last = slot.received >= options_.responses || !outputs.ok();
    if (last && status.ok()) {
      recording.Success(window, slot.begin_ns, now_ns, slot.request.Length(), slot.bytes_received,
                        static_cast<uint64_t>(slot.received));
    }
    slot.response.Clear();
    slot.call->Read(&slot.response, &slot.read);
    if (last) {
      slot.answered = true;
      if (!slot.writing) ContinueStream(slot, window);
    }
  }

  const Options& options_;
  const GrpcCycle::Maker requests_;
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace

std::unique_ptr<Driver> MakeGrpcDriver(const Options& options) {
  return std::make_unique<GrpcDriver>(options);
}

}  // namespace braid::bench
