// Encoded images in requests of a stateful model: requests of one sequence run in order of arrival,
// regardless of the time that decoding takes. For the sanitizers too.
#include <gmock/gmock.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <random>
#include <thread>

#include "base/clock.h"
#include "base/testing/places.h"
#include "images/encoded_images.h"
#include "images/testing/pictures.h"
#include "model_config.pb.h"
#include "sequences/scheduled_model.h"
#include "sequences/testing/step_states.h"
#include "serving/faults.h"

namespace braid {
namespace {

using ::testing::HasSubstr;

enum Flags : unsigned { kMiddle = 0, kStart = 1, kEnd = 2 };

// One pixel: raw, or as a PNG of so many pixels a side.
Tensor Pixel(uint8_t value) {
  const std::vector<uint8_t> pixels(3, value);
  return {"image", DataType::kUint8, {1, 1, 1, 3}, CopyToHeap(std::as_bytes(std::span(pixels)))};
}
Tensor Picture(uint8_t value, uint32_t side = 1) {
  const std::string png = Png(side, side, 3, std::vector<uint8_t>(size_t{3} * side * side, value));
  const auto size = static_cast<uint32_t>(png.size());
  const std::string bytes = std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + png;
  return {"image", DataType::kBytes, Shape(1, 1), CopyToHeap(std::as_bytes(std::span(bytes)))};
}

// The allocator of decoded images; it can block its caller.
class Doorkeeper final : public BufferAllocator {
 public:
  Result<Buffer> Allocate(size_t size) override {
    {
      std::unique_lock lock(mutex_);
      if (stops_ > 0) {
        --stops_;
        ++inside_;
        changed_.notify_all();
        changed_.wait(lock, [this] { return open_; });
      }
    }
    return heap_.Allocate(size);
  }
  // Makes the next call wait.
  void StopNext() {
    std::lock_guard lock(mutex_);
    ++stops_;
    open_ = false;
  }
  void WaitForOne() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return inside_ > 0; });
  }
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    inside_ = 0;
    changed_.notify_all();
  }

 private:
  HeapAllocator heap_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // All guarded by mutex_.
  int stops_ = 0;
  int inside_ = 0;
  bool open_ = true;
};

// Answers within Execute().
class QuickInstance final : public Instance {
 public:
  const std::string& name() const override { return name_; }
  void Execute(std::unique_ptr<Execution> execution) override {
    const int64_t now_ns = SteadyNowNs();
    const ExecutionTimes times{execution->compute_start_ns, now_ns, now_ns, now_ns};
    listener_->OnExecuted(*this, execution->rows, execution->requests.size(), times);
    for (auto& request : execution->requests) {
      const std::vector<Tensor>& inputs = request->inputs;
      InferenceResponse response;
      if (request->cancelled()) {
        response.status = CancelledError("cancelled");
      } else {
        const uint64_t before = inputs.size() == 1 ? 0 : ValueOf(inputs[1]);
        const uint64_t state = Step(before, static_cast<uint8_t>(*inputs[0].data.data()));
        response.outputs = {Number("X", state), Number("state", state)};
      }
      listener_->OnResponse(*this, *request, std::move(response), true, times);
    }
    listener_->OnDelivered(*this);
  }

  ExecutionListener* listener_ = nullptr;

 private:
  const std::string name_ = "m_0";
};

class QuickBackend final : public BackendModel {
 public:
  explicit QuickBackend(Doorkeeper& door) : door_(door) {}
  BufferAllocator& input_allocator() override { return door_; }
  std::vector<Instance*> instances() override { return {&instance_}; }
  Status Start(ExecutionListener& listener, const std::function<void(const std::string&)>&) override {
    instance_.listener_ = &listener;
    return OkStatus();
  }
  void Stop(int64_t) override {}
  Readiness readiness() const override { return {}; }

 private:
  Doorkeeper& door_;
  QuickInstance instance_;
};

// A request's sink, and its cancellation.
struct Client final : public ResponseSink {
  void Respond(std::optional<InferenceResponse> response, bool final) override {
    EXPECT_TRUE(final && response);
    answer.set_value(std::move(*response));
  }
  bool waits() { return future.wait_for(std::chrono::seconds(0)) != std::future_status::ready; }
  Status status() { return future.get().status; }
  uint64_t value() {
    const InferenceResponse& response = future.get();
    EXPECT_TRUE(response.status.ok()) << response.status;
    return response.outputs.empty() ? 0 : ValueOf(response.outputs.front());
  }

  const std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();
  std::promise<InferenceResponse> answer;
  std::shared_future<InferenceResponse> future = answer.get_future().share();
};

class StatefulImages : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }
  void TearDown() override { Stop(SteadyNowNs() + 60'000'000'000); }

  void Start(InstancePool::Options options) {
    Stop(0);
    options.images = &images_;
    ServableInfo info;
    info.name = "m";
    info.dialect = Dialect::kOvms;
    TensorSpec& image = info.inputs.emplace_back();
    image.name = "image";
    image.type = DataType::kUint8;
    image.shape = {1, 1, 1, 3};
    image.layout = "NHWC";
    TensorSpec& x = info.outputs.emplace_back();
    x.name = "X";
    x.type = DataType::kUint64;
    x.shape = {1};
    info.stateful = StatefulSpec{};
    info.stateful->states = {{"state", DataType::kUint64, {1}}};
    info.config = std::make_shared<const inference::ModelConfig>();
    model_ = StartModel(std::move(info), std::make_unique<QuickBackend>(door_), timers_, log_, {}, options)
                 .value();
  }
  void Stop(int64_t deadline_ns) {
    if (model_ == nullptr) return;
    model_->gate().Close();
    model_->Stop(deadline_ns);
    model_ = nullptr;
  }

  std::unique_ptr<InferenceRequest> Make(ResponseSink& sink, uint64_t id, Tensor input,
                                         unsigned flags = kMiddle) {
    auto request = std::make_unique<InferenceRequest>();
    request->correlation_id = id;
    request->sequence_start = (flags & kStart) != 0;
    request->sequence_end = (flags & kEnd) != 0;
    request->servable = ServableHandle::Enter(model_);
    request->start_ns = SteadyNowNs();
    request->inputs.push_back(std::move(input));
    request->sink = &sink;
    return request;
  }
  Client& Send(uint64_t id, Tensor input, unsigned flags = kMiddle) {
    Client& client = clients_.emplace_back();
    auto request = Make(client, id, std::move(input), flags);
    request->cancellation = client.cancellation;
    model_->Infer(std::move(request));
    return client;
  }
  // A picture that is not decoded before the door is opened.
  Client& SendSlow(uint64_t id, uint8_t value, unsigned flags = kMiddle) {
    door_.StopNext();
    Client& client = Send(id, Picture(value), flags);
    door_.WaitForOne();
    return client;
  }
  // Waits until that many requests wait behind the slow one.
  void WaitFor(int64_t waiting) {
    while (model_->pending_requests() < waiting) std::this_thread::yield();
  }
  SequenceCounts counts() { return model_->sequences()->counts(); }

  Doorkeeper door_;
  Logger log_;
  TimerService timers_;
  ImageDecoder images_{{.codec = std::make_shared<OpenCvCodec>(test_places::kOpenCvLibrary)}};
  std::shared_ptr<InstancePool> model_;
  std::deque<Client> clients_;
};

TEST_F(StatefulImages, TensorsWaitForTheImagesBeforeThem) {
  Send(7, Pixel(1), kStart).value();
  Send(8, Pixel(1), kStart).value();
  Client& image = SendSlow(7, 2);
  Client& tensor = Send(7, Pixel(3));
  Client& end = Send(7, Pixel(4), kEnd);
  // Other sequences do not wait.
  EXPECT_EQ(Send(8, Pixel(5), kEnd).value(), Step(Step(0, 1), 5));
  EXPECT_EQ(model_->pending_requests(), 2);
  EXPECT_TRUE(image.waits());
  EXPECT_TRUE(tensor.waits());
  door_.Open();
  const uint64_t two = Step(Step(0, 1), 2);
  EXPECT_EQ(image.value(), two);
  EXPECT_EQ(tensor.value(), Step(two, 3));
  EXPECT_EQ(end.value(), Step(Step(two, 3), 4));
  EXPECT_EQ(model_->pending_requests(), 0);
  EXPECT_EQ(counts().ended, 2u);
  EXPECT_GT(model_->statistics().Snapshot().queue.ns, 0u);
}

TEST_F(StatefulImages, ImagesWaitForThoseBeforeThem) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core decodes one image at a time";
  Client& start = SendSlow(7, 1, kStart);
  Client& second = Send(7, Picture(2, 300));
  Client& third = Send(7, Picture(3));
  WaitFor(2);
  EXPECT_TRUE(start.waits());
  door_.Open();
  EXPECT_EQ(start.value(), Step(0, 1));
  EXPECT_EQ(second.value(), Step(Step(0, 1), 2));
  EXPECT_EQ(third.value(), Step(Step(Step(0, 1), 2), 3));
}

TEST_F(StatefulImages, WhatIsRefusedLetsTheOthersGoOn) {
  Send(7, Pixel(1), kStart).value();
  Client& image = SendSlow(7, 2);
  Tensor broken = Picture(3);
  broken.data = CopyToHeap(std::as_bytes(std::span(std::string_view("\1\0\0\0x", 5))));
  Client& wrong = Send(7, std::move(broken));
  Client& tensor = Send(7, Pixel(4));
  door_.Open();
  EXPECT_EQ(wrong.status(), FaultError(Fault::kImageParsingFailed, "image 0; input name: image"));
  EXPECT_EQ(image.value(), Step(Step(0, 1), 2));
  EXPECT_EQ(tensor.value(), Step(Step(Step(0, 1), 2), 4));
}

TEST_F(StatefulImages, AStartWithoutAnIdWaitsForNobody) {
  Client& slow = SendSlow(0, 1, kStart);
  EXPECT_EQ(Send(0, Pixel(2), kStart).value(), Step(0, 2));
  EXPECT_TRUE(slow.waits());
  door_.Open();
  EXPECT_EQ(slow.value(), Step(0, 1));
}

TEST_F(StatefulImages, WhoseClientGoesWhileItWaitsEndsAtOnce) {
  Send(7, Pixel(1), kStart).value();
  Client& image = SendSlow(7, 2);
  Client& gone = Send(7, Pixel(3));
  Client& stays = Send(7, Pixel(4));
  gone.cancellation->Cancel();
  EXPECT_EQ(gone.status(), CancelledError("Request cancelled while it waited for model 'm'"));
  EXPECT_TRUE(image.waits());
  door_.Open();
  EXPECT_EQ(stays.value(), Step(Step(Step(0, 1), 2), 4));
}

TEST_F(StatefulImages, AnEndHoldsThoughItsClientGoes) {
  Send(7, Pixel(1), kStart).value();
  Client& image = SendSlow(7, 2);
  Client& end = Send(7, Pixel(3), kEnd);
  Client& late = Send(7, Pixel(4));
  Client& again = Send(7, Pixel(5), kStart);
  end.cancellation->Cancel();
  EXPECT_EQ(end.status().code(), StatusCode::kCancelled);
  EXPECT_TRUE(late.waits());
  EXPECT_EQ(counts().active, 1u);
  door_.Open();
  EXPECT_EQ(image.value(), Step(Step(0, 1), 2));
  EXPECT_EQ(late.status(), FaultError(Fault::kSequenceMissing));
  // As after any end that has not been answered.
  EXPECT_EQ(again.status(), FaultError(Fault::kSequenceTerminated));
  EXPECT_EQ(counts().ended, 1u);
  EXPECT_EQ(Send(7, Pixel(5), kStart).value(), Step(0, 5));
  // So does one with an image, regardless of its progress.
  Client& slow_end = SendSlow(7, 6, kEnd);
  slow_end.cancellation->Cancel();
  door_.Open();
  EXPECT_EQ(slow_end.status().code(), StatusCode::kCancelled);
  Client& early = clients_.emplace_back();
  Send(8, Pixel(1), kStart).value();
  early.cancellation->Cancel();
  auto request = Make(early, 8, Picture(2), kEnd);
  request->cancellation = early.cancellation;
  model_->Infer(std::move(request));
  EXPECT_EQ(early.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(Send(8, Pixel(3)).status(), FaultError(Fault::kSequenceMissing));
  EXPECT_EQ(counts().ended, 3u);
  EXPECT_EQ(counts().active, 0u);
}

TEST_F(StatefulImages, AStartWhoseClientGoesDidNotHappen) {
  Client& image = SendSlow(7, 2, kStart);
  Client& step = Send(7, Pixel(3));
  image.cancellation->Cancel();
  EXPECT_TRUE(step.waits());
  door_.Open();
  EXPECT_EQ(image.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(step.status(), FaultError(Fault::kSequenceMissing));
  EXPECT_EQ(counts().active, 0u);
}

TEST_F(StatefulImages, NoMoreWaitThanMay) {
  Start({.max_queue_size = 2});
  Send(7, Pixel(1), kStart).value();
  Client& image = SendSlow(7, 2);
  Client& one = Send(7, Pixel(3));
  Client& two = Send(7, Pixel(4));
  for (Tensor input : {Pixel(5), Picture(5)}) {
    const Status status = Send(7, std::move(input)).status();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("Exceeds maximum queue size: 2 requests wait for sequences of "
                                            "model 'm', the server's limit for one model"));
  }
  door_.Open();
  image.value();
  one.value();
  EXPECT_EQ(two.value(), Step(Step(Step(Step(0, 1), 2), 3), 4));
}

TEST_F(StatefulImages, ThousandsInALineNeedTheStackOfOne) {
  uint64_t state = Step(0, 1);
  Send(7, Pixel(1), kStart).value();
  SendSlow(7, 2);
  state = Step(state, 2);
  for (int i = 0; i < 30000; ++i) Send(7, Pixel(static_cast<uint8_t>(i)));
  for (int i = 0; i < 30000; ++i) state = Step(state, static_cast<uint8_t>(i));
  door_.Open();
  EXPECT_EQ(Send(7, Pixel(9), kEnd).value(), Step(state, 9));
}

TEST_F(StatefulImages, WhatWaitsHearsOfAStop) {
  Send(7, Pixel(1), kStart).value();
  Client& image = SendSlow(7, 2);
  Client& step = Send(7, Pixel(3));
  Client& end = Send(7, Pixel(4), kEnd);
  end.cancellation->Cancel();
  auto model = model_;
  Stop(0);
  EXPECT_EQ(step.status(),
            UnavailableError("Server exiting or model 'm' being unloaded: the request did not run in time"));
  EXPECT_EQ(end.status().code(), StatusCode::kCancelled);
  EXPECT_TRUE(image.waits());
  EXPECT_EQ(model->gate().inside(), 1u);
  door_.Open();
  EXPECT_EQ(image.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(model->pending_requests(), 0);
  // The sequence ends after the answer was sent.
  while (model->sequences()->counts().active > 0) std::this_thread::yield();
  EXPECT_EQ(model->gate().inside(), 0u);
}

TEST_F(StatefulImages, AStopWaitsForTheLine) {
  Send(7, Pixel(1), kStart).value();
  SendSlow(7, 2);
  Client& step = Send(7, Pixel(3));
  model_->gate().Close();
  std::thread opens([this] { door_.Open(); });
  Stop(SteadyNowNs() + 60'000'000'000);
  opens.join();
  EXPECT_EQ(step.value(), Step(Step(Step(0, 1), 2), 3));
}

TEST_F(StatefulImages, AnEndHoldsThoughItsClientGoesBeforeTheSequenceIsBack) {
  model_->sequences()->HoldUntilRestored(SteadyNowNs() + 60'000'000'000);
  Client& step = Send(7, Pixel(2));
  Client& end = Send(7, Pixel(3), kEnd);
  WaitFor(2);
  end.cancellation->Cancel();
  EXPECT_EQ(end.status().code(), StatusCode::kCancelled);
  std::vector<SavedSequence> saved;
  saved.push_back({uint64_t{7}, {Number("state", 5)}});
  EXPECT_EQ(model_->sequences()->Restore(std::move(saved)), 1u);
  EXPECT_EQ(step.value(), Step(5, 2));
  EXPECT_EQ(Send(7, Pixel(4)).status(), FaultError(Fault::kSequenceMissing));
  EXPECT_EQ(counts().ended, 1u);
}

// Each sequence has a thread that does not wait for answers: large pictures, small ones and tensors, some of
// which are cancelled. The answers equal those of the same requests sent one after the other.
TEST_F(StatefulImages, RandomRequestsKeepTheirOrder) {
  constexpr uint64_t kSequences = 4;
  constexpr int kSteps = 150;
  const auto drive = [this](uint64_t id) {
    std::mt19937 random(static_cast<unsigned>(id));
    std::deque<Client> clients;
    std::vector<uint8_t> values;
    std::vector<bool> cancelled;
    for (int i = 0; i <= kSteps; ++i) {
      const auto value = static_cast<uint8_t>(random());
      const unsigned what = random() % 8;
      values.push_back(value);
      cancelled.push_back(i > 0 && i < kSteps && random() % 9 == 0);
      Client& client = clients.emplace_back();
      auto request = Make(client, id,
                          what == 0  ? Picture(value, 400)
                          : what < 4 ? Picture(value)
                                     : Pixel(value),
                          i == 0        ? kStart
                          : i == kSteps ? kEnd
                                        : kMiddle);
      request->cancellation = client.cancellation;
      model_->Infer(std::move(request));
      if (cancelled.back()) client.cancellation->Cancel();
    }
    uint64_t state = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const Status status = clients[i].status();
      if (cancelled[i] && status.code() == StatusCode::kCancelled) continue;
      state = Step(state, values[i]);
      ASSERT_EQ(clients[i].value(), state) << "sequence " << id << ", request " << i;
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t id = 1; id <= kSequences; ++id) threads.emplace_back(drive, id);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counts().ended, kSequences);
  EXPECT_EQ(counts().rejected, 0u);
  EXPECT_EQ(model_->pending_requests(), 0);
}

}  // namespace
}  // namespace braid
