#include "protocols/inference/cuda_region.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <string>
#include <vector>

#include "protocols/inference/input_memory.h"
#include "protocols/inference/output_plan.h"
#include "serving/servable.h"

namespace braid {
namespace {

using ::testing::ElementsAre;

// A region that is a string, which only the thread of copies may access.
class FakeRegion final : public ClientRegion {
 public:
  FakeRegion(std::string bytes, ElasticThreads& copies)
      : ClientRegion({.name = "r", .key = {}, .byte_size = bytes.size(), .gpu = 0}),
        bytes_(std::move(bytes)),
        copies_(copies) {}
  ElasticThreads* copies() const override { return &copies_; }
  Status Read(uint64_t offset, Buffer& to) const override {
    if (failing) return InternalError("the device is lost");
    std::memcpy(to.mutable_data(), bytes_.data() + offset, to.size());
    return OkStatus();
  }
  Status Write(uint64_t offset, const Buffer& from) const override {
    std::memcpy(bytes_.data() + offset, from.data(), from.size());
    return OkStatus();
  }
  const std::string& bytes() const { return bytes_; }

  bool failing = false;

 private:
  mutable std::string bytes_;
  ElasticThreads& copies_;
};

// Echoes the first input of each request, on the thread that brings it.
class Echo final : public Servable {
 public:
  explicit Echo(ServableKind kind = ServableKind::kModel)
      : Servable([kind] {
          ServableInfo info;
          info.name = "echo";
          info.kind = kind;
          info.inputs.resize(2);
          return info;
        }()) {}
  BufferAllocator& input_allocator() override { return heap_; }
  void Infer(std::unique_ptr<InferenceRequest> request) override {
    order.emplace_back(request->inputs[0].data.text());
    InferenceResponse response;
    response.outputs.push_back(request->inputs[0]);
    response.outputs[0].name = "OUT";
    request->Respond(std::move(response), true);
  }
  Readiness readiness() const override { return {}; }
  void Stop(int64_t) override {}

  std::vector<std::string> order;

 private:
  HeapAllocator heap_;
};

class Waiting final : public ResponseSink {
 public:
  void Respond(std::optional<InferenceResponse> response, bool final) override {
    EXPECT_TRUE(final);
    answer_.set_value(std::move(*response));
  }
  InferenceResponse Wait() { return answer_.get_future().get(); }

 private:
  std::promise<InferenceResponse> answer_;
};

class DevicePreparationTest : public testing::Test {
 protected:
  // Makes a request with an input in the region, or with the input "text".
  std::unique_ptr<InferenceRequest> Request(Servable& servable, Waiting& sink,
                                            std::optional<RegionPart> part) {
    auto request = std::make_unique<InferenceRequest>();
    request->inputs.resize(1);
    InputMemory memory;
    if (part) {
      memory.AddRegion(*part);
    } else {
      memory.Add(4);
    }
    filled_ = memory.Fill(servable.info(), servable.input_allocator(), *request, [](size_t, std::byte* to) {
      std::memcpy(to, "text", 4);
      return OkStatus();
    });
    request->sink = &sink;
    request->servable = ServableHandle::Enter({&servable, [](Servable*) {}});
    return request;
  }

  Status filled_;
  ElasticThreads copies_{{.name = "copies", .most = 1}};
};

TEST_F(DevicePreparationTest, InputsComeBeforeTheServableSeesThem) {
  Echo echo;
  Waiting sink;
  auto region = std::make_shared<FakeRegion>("0123456789", copies_);
  auto request = Request(echo, sink, RegionPart{region, 2, 3});
  ASSERT_TRUE(filled_.ok());
  ASSERT_NE(request->preparation, nullptr);
  echo.Begin(std::move(request));
  EXPECT_EQ(sink.Wait().outputs[0].data.text(), "234");
}

TEST_F(DevicePreparationTest, WhatFailsRefusesTheRequest) {
  Echo echo;
  Waiting sink;
  auto region = std::make_shared<FakeRegion>("0123456789", copies_);
  region->failing = true;
  echo.Begin(Request(echo, sink, RegionPart{region, 0, 3}));
  EXPECT_EQ(sink.Wait().status.message(), "the device is lost");
  EXPECT_TRUE(echo.order.empty());
}

TEST_F(DevicePreparationTest, ResponsesGoThroughTheThreadOfCopies) {
  Echo echo;
  Waiting sink;
  auto region = std::make_shared<FakeRegion>("0123456789", copies_);
  OutputPlan plan;
  plan.asked_outputs.push_back({.name = "OUT"});
  plan.asked_outputs[0].part = {region, 5, 4};
  auto request = Request(echo, sink, std::nullopt);
  EXPECT_EQ(request->preparation, nullptr);
  ASSERT_TRUE(plan.Prepare(echo.info(), *request).ok());
  ASSERT_NE(request->preparation, nullptr);
  echo.Begin(std::move(request));
  InferenceResponse answer = sink.Wait();
  ASSERT_TRUE(plan.Apply(answer.outputs).ok());
  EXPECT_EQ(region->bytes(), "01234text9");
}

TEST_F(DevicePreparationTest, RequestsKeepTheirOrder) {
  Echo echo;
  Waiting first;
  Waiting second;
  std::promise<void> go;
  copies_.Run([&] { go.get_future().wait(); });
  auto region = std::make_shared<FakeRegion>("0123456789", copies_);
  echo.Begin(Request(echo, first, RegionPart{region, 0, 1}));
  auto request = Request(echo, second, std::nullopt);
  DevicePreparation::Of(*request, copies_);
  echo.Begin(std::move(request));
  EXPECT_TRUE(echo.order.empty());
  go.set_value();
  first.Wait();
  second.Wait();
  EXPECT_THAT(echo.order, ElementsAre("0", "text"));
}

TEST_F(DevicePreparationTest, GraphsHaveNoTensorsThere) {
  Echo graph(ServableKind::kGraph);
  Waiting sink;
  auto region = std::make_shared<FakeRegion>("0123456789", copies_);
  auto request = Request(graph, sink, RegionPart{region, 0, 3});
  EXPECT_EQ(filled_.message(), "inputs of graph 'echo' cannot use CUDA shared memory");
  request->sink = nullptr;
  OutputPlan plan;
  plan.asked_outputs.push_back({.name = "OUT"});
  plan.asked_outputs[0].part = {region, 0, 4};
  InferenceRequest asked;
  EXPECT_EQ(plan.Prepare(graph.info(), asked).message(),
            "outputs of graph 'echo' cannot use CUDA shared memory");
}

}  // namespace
}  // namespace braid
