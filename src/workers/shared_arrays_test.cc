#include "workers/shared_arrays.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "tensor/buffer.h"

namespace braid {
namespace {

class Sink final : public ResponseSink {
 public:
  void Respond(std::optional<InferenceResponse> response, bool final) override {
    EXPECT_TRUE(final);
    EXPECT_FALSE(got);
    got = std::move(response);
  }
  bool loads() const { return got && !got->parameters.empty() && got->parameters[0].first == "load"; }
  std::string text() const {
    if (!got || got->outputs.size() != 1) return "";
    const Buffer& data = got->outputs[0].data;
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }

  std::optional<InferenceResponse> got;
};

class SharedArraysTest : public ::testing::Test {
 protected:
  void Open(int user, const std::string& key, Sink& sink) { arrays_.Call(User(user), Request(key, sink)); }
  void Fill(int user, const std::string& key, const std::string& text, Sink& sink) {
    auto request = Request(key, sink);
    request->parameters.emplace_back(SharedArrays::kStructure, std::string("{}"));
    Tensor tensor;
    tensor.name = "0";
    tensor.type = DataType::kUint8;
    tensor.shape = {static_cast<int64_t>(text.size())};
    tensor.data = CopyToHeap(std::as_bytes(std::span(text)));
    request->inputs.push_back(std::move(tensor));
    arrays_.Call(User(user), std::move(request));
  }
  void Fail(int user, const std::string& key, Sink& sink) {
    auto request = Request(key, sink);
    request->parameters.emplace_back(SharedArrays::kFailed, true);
    arrays_.Call(User(user), std::move(request));
  }
  void Leave(int user) { arrays_.Leave(User(user)); }

  SharedArrays arrays_;

 private:
  static SharedArrays::User User(int user) { return reinterpret_cast<SharedArrays::User>(uintptr_t(user)); }
  static std::unique_ptr<InferenceRequest> Request(const std::string& key, Sink& sink) {
    auto request = std::make_unique<InferenceRequest>();
    request->id = key;
    request->sink = &sink;
    return request;
  }
};

TEST_F(SharedArraysTest, AsksOneUserToLoad) {
  Sink first;
  Sink second;
  Sink filled;
  Sink third;
  Open(1, "k", first);
  EXPECT_TRUE(first.loads());
  Open(2, "k", second);
  EXPECT_FALSE(second.got);
  Fill(1, "k", "abc", filled);
  EXPECT_EQ(filled.text(), "abc");
  EXPECT_EQ(second.text(), "abc");
  Open(3, "k", third);
  EXPECT_EQ(third.text(), "abc");
  Sink other;
  Open(3, "other", other);
  EXPECT_TRUE(other.loads());
}

TEST_F(SharedArraysTest, AsksTheNextAfterAFailureOrAnEnd) {
  Sink sinks[6];
  Open(1, "k", sinks[0]);
  Open(2, "k", sinks[1]);
  Open(3, "k", sinks[2]);
  Fail(1, "k", sinks[3]);
  EXPECT_TRUE(sinks[3].got);
  EXPECT_TRUE(sinks[1].loads());
  Leave(2);
  EXPECT_TRUE(sinks[2].loads());
  Fill(3, "k", "x", sinks[4]);
  EXPECT_EQ(sinks[4].text(), "x");
  // The one whose loader has failed may ask again.
  Open(1, "k", sinks[5]);
  EXPECT_EQ(sinks[5].text(), "x");
}

TEST_F(SharedArraysTest, FreesWithTheLastUser) {
  Sink sinks[5];
  Open(1, "k", sinks[0]);
  Fill(1, "k", "x", sinks[1]);
  Open(2, "k", sinks[2]);
  Leave(1);
  Open(3, "k", sinks[3]);
  EXPECT_EQ(sinks[3].text(), "x");
  Leave(2);
  Leave(3);
  Open(4, "k", sinks[4]);
  EXPECT_TRUE(sinks[4].loads());
}

TEST_F(SharedArraysTest, EndsTheWaitOfAUserThatLeaves) {
  Sink first;
  Sink second;
  Open(1, "k", first);
  Open(2, "k", second);
  Leave(2);
  ASSERT_TRUE(second.got);
  EXPECT_EQ(second.got->status.code(), StatusCode::kCancelled);
}

TEST_F(SharedArraysTest, RefusesWaitsThatWouldNotEnd) {
  Sink sinks[6];
  Open(1, "a", sinks[0]);
  Open(2, "b", sinks[1]);
  Open(3, "c", sinks[2]);
  Open(1, "b", sinks[3]);
  EXPECT_FALSE(sinks[3].got);
  Open(2, "c", sinks[4]);
  EXPECT_FALSE(sinks[4].got);
  Open(3, "a", sinks[5]);
  ASSERT_TRUE(sinks[5].got);
  EXPECT_EQ(sinks[5].got->status, FailedPreconditionError("shared_arrays: the loader of 'a' waits for arrays "
                                                          "that this process loads"));
  for (int user : {1, 2, 3}) Leave(user);
}

TEST_F(SharedArraysTest, RefusesArraysOutOfTurn) {
  Sink first;
  Sink second;
  Open(1, "k", first);
  Fill(2, "k", "x", second);
  ASSERT_TRUE(second.got);
  EXPECT_EQ(second.got->status.code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace braid
