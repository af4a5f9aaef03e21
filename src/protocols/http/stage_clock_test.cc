#include "protocols/http/stage_clock.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(StageClock, EachStageHasItsLimit) {
  HttpListenerOptions options;
  options.idle_timeout = seconds(100);
  options.header_timeout = seconds(200);
  options.body_timeout = seconds(300);
  options.write_timeout = seconds(400);
  options.linger_timeout = seconds(500);
  struct Case {
    HttpStage stage;
    bool idle;
    bool handshake_done;
    seconds limit;
  };
  for (const Case& c : {
           Case{HttpStage::kHead, true, true, seconds(100)},
           Case{HttpStage::kHead, true, false, seconds(200)},
           Case{HttpStage::kHead, false, true, seconds(200)},
           Case{HttpStage::kFront, false, true, seconds(300)},
           Case{HttpStage::kRest, false, true, seconds(300)},
           Case{HttpStage::kWhole, false, true, seconds(300)},
           Case{HttpStage::kOffered, false, true, seconds(100)},
           Case{HttpStage::kWriting, false, true, seconds(400)},
           Case{HttpStage::kDiscard, false, true, seconds(500)},
           Case{HttpStage::kLinger, false, true, seconds(500)},
       }) {
    StageClock clock;
    clock.Enter(c.stage);
    const int64_t now_ns = SteadyNowNs();
    const auto expired = [&](seconds after) {
      return clock.Expired(now_ns + std::chrono::nanoseconds(after).count(), options, c.idle,
                           c.handshake_done);
    };
    EXPECT_FALSE(expired(c.limit - seconds(1))) << static_cast<int>(c.stage);
    EXPECT_TRUE(expired(c.limit + seconds(1))) << static_cast<int>(c.stage);
  }
}

TEST(StageClock, ABodyGetsItsTimeAnewWithEach64KiB) {
  struct Case {
    HttpStage stage;
    std::vector<uint64_t> input;
    bool anew;
  };
  for (const Case& c : {Case{HttpStage::kRest, {StageClock::kProgressBytes - 1}, false},
                        Case{HttpStage::kRest, {StageClock::kProgressBytes - 1, 1}, true},
                        Case{HttpStage::kHead, {StageClock::kProgressBytes}, false}}) {
    StageClock clock;
    clock.Enter(c.stage);
    while (!clock.Silent(SteadyNowNs(), milliseconds(1))) continue;
    for (const uint64_t bytes : c.input) clock.AddInput(bytes);
    EXPECT_EQ(!clock.Silent(SteadyNowNs(), milliseconds(1)), c.anew);
  }
}

}  // namespace
}  // namespace braid
