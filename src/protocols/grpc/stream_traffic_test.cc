#include "protocols/grpc/stream_traffic.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace braid {
namespace {

using Claims = StreamTraffic::Claims;

class NoEvent final : public GrpcEvent {
 public:
  void Complete(bool) override {}
};

// What is claimed, without a call of gRPC's behind it: nothing is started.
class StreamTrafficTest : public testing::Test {
 protected:
  static EncodedMessage Message(const std::string& text) {
    const grpc::Slice slice(text);
    return {&slice, 1, text.size()};
  }
  static std::string TextOf(const Claims& claims) {
    grpc::Slice slice;
    EXPECT_TRUE(claims.message.bytes.TrySingleSlice(&slice).ok());
    return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
  }
  // One message of this size is waiting.
  void PushBytes(size_t size) { traffic_.Push({nullptr, 0, size}); }

  Claims Write() {
    Claims claims;
    traffic_.ClaimWrite(claims);
    return claims;
  }
  Claims End() {
    Claims claims;
    traffic_.ClaimEnd(claims);
    return claims;
  }
  Claims Finish(grpc::Status status) {
    Claims claims;
    traffic_.ClaimFinish(std::move(status), claims);
    return claims;
  }
  bool Read() {
    Claims claims;
    traffic_.ClaimRead(claims);
    return claims.read;
  }
  bool Written(bool ok = true) {
    traffic_.OnWritten(ok);
    return traffic_.OperationEnded();
  }

  NoEvent event_;
  grpc::ServerContext context_;
  StreamTraffic::Call call_{&context_};
  grpc::ByteBuffer message_;
  Logger log_;
  const StreamTraffic::Setup setup_{call_, message_, event_, event_, event_, log_};
  StreamTraffic traffic_;
};

TEST_F(StreamTrafficTest, WritesOneMessageAtATimeInOrder) {
  EXPECT_FALSE(Write().write);
  for (const char* text : {"a", "bb", "ccc"}) traffic_.Push(Message(text));
  EXPECT_EQ(traffic_.waiting(), 3u);
  EXPECT_EQ(traffic_.waiting_bytes(), 6u);
  const Claims first = Write();
  ASSERT_TRUE(first.write);
  EXPECT_EQ(TextOf(first), "a");
  // The client is not to wait for the headers until the second message follows.
  EXPECT_FALSE(first.more);
  EXPECT_FALSE(Write().write);
  EXPECT_FALSE(Written());
  const Claims second = Write();
  EXPECT_EQ(TextOf(second), "bb");
  EXPECT_TRUE(second.more);
  EXPECT_FALSE(Written());
  const Claims third = Write();
  EXPECT_EQ(TextOf(third), "ccc");
  EXPECT_FALSE(third.more);
  EXPECT_EQ(traffic_.waiting_bytes(), 0u);
}

TEST_F(StreamTrafficTest, ReadsOneMessageAtATimeUntilTheClientIsDone) {
  EXPECT_TRUE(Read());
  EXPECT_FALSE(Read());
  traffic_.OnRead(true);
  EXPECT_FALSE(traffic_.half_closed());
  EXPECT_TRUE(Read());
  traffic_.OnRead(false);
  EXPECT_TRUE(traffic_.half_closed());
  EXPECT_FALSE(Read());
  EXPECT_TRUE(traffic_.open());
}

TEST_F(StreamTrafficTest, TheFirstEndFollowsTheLastMessage) {
  EXPECT_FALSE(End().finish);
  traffic_.Push(Message("a"));
  traffic_.Push(Message("b"));
  EXPECT_TRUE(Write().write);
  traffic_.End({grpc::StatusCode::NOT_FOUND, "first"});
  traffic_.End({grpc::StatusCode::INTERNAL, "second"});
  EXPECT_FALSE(traffic_.open());
  EXPECT_FALSE(Read());
  EXPECT_FALSE(End().finish);  // one is being written, one waits
  EXPECT_FALSE(Written());
  EXPECT_FALSE(End().finish);
  EXPECT_TRUE(Write().write);
  EXPECT_FALSE(Written());
  const Claims end = End();
  ASSERT_TRUE(end.finish);
  EXPECT_EQ(end.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(end.status.error_message(), "first");
  EXPECT_FALSE(End().finish);
  EXPECT_FALSE(Finish(grpc::Status::OK).finish);
}

TEST_F(StreamTrafficTest, FinishesOnceAndOpensNothingBehindIt) {
  traffic_.Push(Message("a"));
  EXPECT_TRUE(Write().write);
  EXPECT_FALSE(Finish(grpc::Status::OK).finish);
  EXPECT_FALSE(Written());
  EXPECT_TRUE(Finish(grpc::Status::OK).finish);
  EXPECT_FALSE(Finish({grpc::StatusCode::UNAVAILABLE, "late"}).finish);
  EXPECT_FALSE(traffic_.open());
  // Nobody asked for an end, and the client is there.
  EXPECT_FALSE(traffic_.ended());
  EXPECT_FALSE(Read());
}

TEST_F(StreamTrafficTest, AFailedWriteKillsTheCall) {
  traffic_.Push(Message("a"));
  traffic_.Push(Message("b"));
  EXPECT_TRUE(Write().write);
  EXPECT_FALSE(Written(false));
  EXPECT_TRUE(traffic_.dead());
  EXPECT_TRUE(traffic_.ended());
  EXPECT_EQ(traffic_.waiting(), 0u);
  EXPECT_EQ(traffic_.waiting_bytes(), 0u);
  EXPECT_FALSE(Write().write);
  EXPECT_FALSE(Read());
  EXPECT_FALSE(Finish(grpc::Status::OK).finish);
}

TEST_F(StreamTrafficTest, CutsOffAClientThatDoesNotRead) {
  Claims claims;
  PushBytes(1);
  EXPECT_TRUE(Write().write);
  PushBytes(StreamTraffic::kMaxWaitingBytes);
  EXPECT_FALSE(traffic_.CutOff(claims));
  EXPECT_FALSE(claims.cut_off);
  PushBytes(1);
  EXPECT_TRUE(traffic_.CutOff(claims));
  EXPECT_TRUE(claims.cut_off);
  EXPECT_EQ(traffic_.waiting(), 0u);
  EXPECT_EQ(traffic_.waiting_bytes(), 0u);
  EXPECT_FALSE(traffic_.dead());
  EXPECT_FALSE(End().finish);  // behind what is being written
  EXPECT_FALSE(Written());
  EXPECT_EQ(End().status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(StreamTrafficTest, IsOverWithTheLastEventOfAll) {
  EXPECT_TRUE(Read());
  traffic_.Push(Message("a"));
  EXPECT_TRUE(Write().write);
  traffic_.OnRead(false);
  EXPECT_FALSE(traffic_.OperationEnded());
  traffic_.OnDone();
  EXPECT_TRUE(traffic_.dead());
  EXPECT_FALSE(traffic_.OperationEnded());  // the write is still under way
  EXPECT_TRUE(Written(false));
}

TEST_F(StreamTrafficTest, IsOverWithTheEventOfTheEndWhenNothingElseIsUnderWay) {
  EXPECT_TRUE(Finish(grpc::Status::OK).finish);
  EXPECT_FALSE(traffic_.OperationEnded());
  traffic_.OnDone();
  EXPECT_TRUE(traffic_.OperationEnded());
}

}  // namespace
}  // namespace braid
