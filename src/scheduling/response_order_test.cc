#include "scheduling/response_order.h"

#include <gtest/gtest.h>

#include "scheduling/testing/recording_sink.h"

namespace braid {
namespace {

struct Asked {
  explicit Asked(ResponseOrder& order, std::string& log, char name) {
    request.sink = &sink;
    sink.on_response = [this, &log, name] {
      log += sink.ended ? std::string(1, name) + "." : std::string(1, name);
    };
    order.Enter(request);
  }
  RecordingSink sink;
  InferenceRequest request;
};

TEST(ResponseOrder, DeliversTheFirstAtOnceAndKeepsTheOthers) {
  auto order = std::make_shared<ResponseOrder>();
  std::string log;
  Asked a(*order, log, 'a');
  Asked b(*order, log, 'b');
  Asked c(*order, log, 'c');
  c.request.Respond(InferenceResponse(), true);
  b.request.Respond(InferenceResponse(), false);
  EXPECT_EQ(log, "");
  a.request.Respond(InferenceResponse(), false);
  EXPECT_EQ(log, "a");
  a.request.Respond(std::nullopt, true);
  EXPECT_EQ(log, "aa.b");
  b.request.Respond(InferenceResponse(), true);
  EXPECT_EQ(log, "aa.bb.c.");
}

TEST(ResponseOrder, TakesWhatASinkBringsMeanwhile) {
  auto order = std::make_shared<ResponseOrder>();
  std::string log;
  Asked a(*order, log, 'a');
  Asked b(*order, log, 'b');
  a.sink.on_response = [&] {
    log += "a.";
    b.request.Respond(InferenceResponse(), true);
    EXPECT_EQ(log, "a.") << "a sink is not called from within another";
  };
  a.request.Respond(InferenceResponse(), true);
  EXPECT_EQ(log, "a.b.");
}

TEST(ResponseOrder, OutlivesItsModelUntilTheLastResponse) {
  auto order = std::make_shared<ResponseOrder>();
  std::string log;
  Asked a(*order, log, 'a');
  order.reset();
  a.request.Respond(InferenceResponse(), true);
  EXPECT_EQ(log, "a.");
}

}  // namespace
}  // namespace braid
