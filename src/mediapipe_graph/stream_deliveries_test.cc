#include "mediapipe_graph/stream_deliveries.h"

#include <gtest/gtest.h>

#include <new>
#include <optional>

namespace braid {
namespace {

// A sink that runs out of memory for one of its responses.
class PoorSink final : public StreamSink {
 public:
  void Respond(InferenceResponse, const std::string& request_id) override {
    if (request_id == "large") throw std::bad_alloc();
    ++responses;
  }
  void OnWantsInput() override {}
  void End(Status status) override { end = std::move(status); }

  int responses = 0;
  std::optional<Status> end;
};

TEST(StreamDeliveries, AStreamThatHasLostAResponseEndsWithWhy) {
  PoorSink sink;
  StreamDeliveries deliveries(sink);
  deliveries.Release();
  for (const char* id : {"small", "large", "small"}) deliveries.Respond({}, id);
  deliveries.End(OkStatus(), [] {});
  EXPECT_EQ(sink.responses, 2);
  ASSERT_TRUE(sink.end.has_value());
  EXPECT_EQ(sink.end->code(), StatusCode::kResourceExhausted);
}

TEST(StreamDeliveries, AnEndOfItsOwnStays) {
  PoorSink sink;
  StreamDeliveries deliveries(sink);
  deliveries.Release();
  deliveries.Respond({}, "large");
  deliveries.End(InternalError("the run failed"), [] {});
  EXPECT_EQ(*sink.end, InternalError("the run failed"));
}

}  // namespace
}  // namespace braid
