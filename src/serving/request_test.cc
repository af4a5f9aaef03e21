#include "serving/request.h"

#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <stdexcept>
#include <vector>

#include "base/guard.h"
#include "serving/servable.h"

namespace braid {
namespace {

struct Heard final : ResponseSink {
  void Respond(std::optional<InferenceResponse> response, bool final) override {
    statuses.push_back(response ? response->status : OkStatus());
    ends += final ? 1 : 0;
  }
  std::vector<Status> statuses;
  int ends = 0;
};

class Faulty final : public Servable {
 public:
  explicit Faulty(std::function<void(std::unique_ptr<InferenceRequest>)> body)
      : Servable(ServableInfo{}), body_(std::move(body)) {}
  BufferAllocator& input_allocator() override { return heap_; }
  void Infer(std::unique_ptr<InferenceRequest> request) override { body_(std::move(request)); }
  Readiness readiness() const override { return {}; }
  void Stop(int64_t) override {}

 private:
  const std::function<void(std::unique_ptr<InferenceRequest>)> body_;
  HeapAllocator heap_;
};

std::unique_ptr<InferenceRequest> RequestTo(const std::shared_ptr<Servable>& servable, Heard& heard) {
  auto request = std::make_unique<InferenceRequest>();
  request->servable = ServableHandle::Enter(servable);
  request->cancellation = std::make_shared<Cancellation>();
  request->sink = &heard;
  return request;
}

TEST(InferenceRequest, AnExceptionEndsItOnce) {
  InstallAllocationHandler();
  const auto broken = std::make_shared<Faulty>([](auto) { throw std::runtime_error("it broke"); });
  Heard heard;
  broken->Begin(RequestTo(broken, heard));
  EXPECT_EQ(heard.statuses, std::vector{InternalError("internal server error")});
  EXPECT_EQ(heard.ends, 1);
  EXPECT_EQ(broken->gate().inside(), 0u);

  // Does the same as `operator new` without memory.
  const auto short_of_memory = std::make_shared<Faulty>([](auto) {
    for (;;) std::get_new_handler()();
  });
  heard = {};
  short_of_memory->Begin(RequestTo(short_of_memory, heard));
  EXPECT_EQ(heard.statuses, std::vector{ResourceExhaustedError("out of memory")});
  EXPECT_EQ(heard.ends, 1);
  std::set_new_handler(nullptr);
}

TEST(InferenceRequest, AnExceptionBehindTheEndIsNoAnswer) {
  const auto late = std::make_shared<Faulty>([](auto request) {
    request->Refuse(NotFoundError("no"));
    throw std::bad_alloc();
  });
  Heard heard;
  late->Begin(RequestTo(late, heard));
  EXPECT_EQ(heard.statuses, std::vector{NotFoundError("no")});
  EXPECT_EQ(heard.ends, 1);
}

TEST(InferenceRequest, WhoIsGoneIsNotToldOfACancellation) {
  bool told = false;
  const auto listening = std::make_shared<Faulty>([&](auto request) {
    request->cancellation->SetListener([&] { told = true; });
    throw std::bad_alloc();
  });
  Heard heard;
  auto request = RequestTo(listening, heard);
  const std::shared_ptr<Cancellation> cancellation = request->cancellation;
  listening->Begin(std::move(request));
  EXPECT_EQ(heard.ends, 1);
  cancellation->Cancel();
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace braid
