#include "scheduling/trace_points.h"

#include <gtest/gtest.h>

#include <string>

namespace braid {
namespace {

class Noted final : public RequestTrace {
 public:
  explicit Noted(bool tensors) : tensors_(tensors) {}
  void Record(TraceActivity activity, int64_t ns) override {
    text += std::to_string(static_cast<int>(activity)) + "@" + std::to_string(ns) + " ";
  }
  bool wants_tensors() const override { return tensors_; }
  void RecordTensor(TraceTensorKind kind, const Tensor& tensor, int64_t ns) override {
    text += tensor.name + std::to_string(static_cast<int>(kind)) + "@" + std::to_string(ns) + " ";
  }
  std::shared_ptr<RequestTrace> StartChild(std::string_view, int64_t) override { return nullptr; }
  std::string context() const override { return ""; }

  std::string text;

 private:
  const bool tensors_;
};

std::string Walk(bool tensors) {
  InferenceRequest request;
  auto trace = std::make_shared<Noted>(tensors);
  request.trace = trace;
  request.queue_start_ns = 5;
  request.inputs.emplace_back().name = "in";
  TraceQueued(request);
  TraceDispatched(request, 6);
  InferenceResponse response;
  response.outputs.emplace_back().name = "out";
  TraceResponse(request, response, false, {6, 7, 8, 9}, 10);
  TraceResponse(request, std::nullopt, true, {6, 7, 8, 9}, 11);
  return trace->text;
}

TEST(TracePoints, RecordTimesAndTensorsWhenWanted) {
  EXPECT_EQ(Walk(false), "1@5 2@6 3@7 4@8 5@9 ");
  EXPECT_EQ(Walk(true), "1@5 in0@5 2@6 in1@6 out2@10 3@7 4@8 5@9 ");
}

TEST(TracePoints, LeaveUntracedRequestsAlone) {
  InferenceRequest request;
  TraceQueued(request);
  TraceDispatched(request, 1);
  TraceResponse(request, std::nullopt, true, {}, 1);
}

}  // namespace
}  // namespace braid
