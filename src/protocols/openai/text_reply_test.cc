#include <gtest/gtest.h>

#include "protocols/openai/reply.h"
#include "protocols/openai/tensors.h"
#include "serving/openai_convention.h"

namespace braid {
namespace {

class Reply : public testing::Test {
 protected:
  static InferenceResponse Response(std::vector<std::pair<std::string, std::string>> texts,
                                    Parameters parameters = {}) {
    HeapAllocator heap;
    InferenceResponse response;
    for (const auto& [name, text] : texts) {
      response.outputs.push_back(TextTensor(name, {1}, std::vector<std::string>{text}, heap).value());
    }
    response.parameters = std::move(parameters);
    return response;
  }
  static InferenceResponse Text(std::string text, Parameters parameters = {}) {
    return Response({{"text_output", std::move(text)}}, std::move(parameters));
  }

  OpenAiReplyFacts Facts(bool stream) const { return {route_, "id1", 7, "m", stream, include_usage_}; }
  std::unique_ptr<OpenAiReply> TextReply(bool stream, int64_t choices = 1) const {
    return MakeTextReply(Facts(stream), choices, cuts_, max_tokens_);
  }
  // Returns the events of each response, and of the end.
  static std::vector<std::string> Run(OpenAiReply& reply, const std::vector<InferenceResponse>& responses) {
    std::vector<std::string> all;
    for (const InferenceResponse& response : responses) {
      if (reply.complete()) break;
      const Status status = reply.Take(response, all.emplace_back());
      if (!status.ok()) all.back() = status.message();
    }
    const Status status = reply.End(all.emplace_back());
    if (!status.ok()) all.back() = status.message();
    return all;
  }

  OpenAiRoute route_ = OpenAiRoute::kChat;
  bool include_usage_ = false;
  TextCuts cuts_;
  std::optional<int64_t> max_tokens_;
};

std::string Chunk(const std::string& delta, const std::string& reason = "null") {
  return R"(data: {"id":"id1","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":)" +
         delta + R"(,"logprobs":null,"finish_reason":)" + reason + "}]}\n\n";
}
const std::string kRole = Chunk(R"({"role":"assistant","content":""})");
constexpr char kEnd[] = "data: [DONE]\n\n";

TEST_F(Reply, StreamsAChunkForEachPieceOfAChat) {
  const auto reply = TextReply(true);
  EXPECT_EQ(Run(*reply, {Text("a\"b"), Text("c"), Text("")}),
            (std::vector<std::string>{kRole + Chunk(R"({"content":"a\"b"})"), Chunk(R"({"content":"c"})"), "",
                                      Chunk("{}", R"("stop")") + kEnd}));
}

TEST_F(Reply, JoinsThePiecesWithoutAStream) {
  const auto reply = TextReply(false);
  EXPECT_EQ(
      Run(*reply, {Text("a"), Text("b", {{"finish_reason", std::string("length")},
                                         {"num_input_tokens", int64_t{5}},
                                         {"num_output_tokens", int64_t{2}}})})
          .back(),
      R"({"id":"id1","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ab","refusal":null},"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}})");
}

TEST_F(Reply, WritesCompletions) {
  route_ = OpenAiRoute::kCompletion;
  EXPECT_EQ(
      Run(*TextReply(false), {Text("x")}).back(),
      R"({"id":"id1","object":"text_completion","created":7,"model":"m","choices":[{"index":0,"text":"x","logprobs":null,"finish_reason":"stop"}],"usage":null})");
  EXPECT_EQ(
      Run(*TextReply(true), {Text("x")}),
      (std::vector<std::string>{
          R"(data: {"id":"id1","object":"text_completion","created":7,"model":"m","choices":[{"index":0,"text":"x","logprobs":null,"finish_reason":null}]})"
          "\n\n",
          R"(data: {"id":"id1","object":"text_completion","created":7,"model":"m","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}]})"
          "\n\ndata: [DONE]\n\n"}));
}

TEST_F(Reply, CutsAtAStopTextThatSpansPieces) {
  cuts_.stop = {"END"};
  const auto reply = TextReply(true);
  EXPECT_EQ(Run(*reply, {Text("aE"), Text("N"), Text("Db"), Text("c")}),
            (std::vector<std::string>{kRole + Chunk(R"({"content":"a"})"), "", "",
                                      Chunk("{}", R"("stop")") + kEnd}));
  EXPECT_TRUE(reply->complete());
}

TEST_F(Reply, CutsAtTheTokenLimit) {
  cuts_.tokens = max_tokens_ = 2;
  const auto reply = TextReply(true);
  EXPECT_EQ(Run(*reply, {Text("a"), Text("b"), Text("c")}).back(), Chunk("{}", R"("length")") + kEnd);
  EXPECT_TRUE(reply->complete());
}

TEST_F(Reply, TheModelsReasonIsStrongerThanTheTokenLimit) {
  cuts_.tokens = max_tokens_ = 1;
  const auto last = Response({{"text_output", "a"}, {"finish_reason", "stop"}});
  EXPECT_NE(Run(*TextReply(false), {last}).back().find(R"("finish_reason":"stop")"), std::string::npos);
}

TEST_F(Reply, SendsUsageLastWhenAsked) {
  include_usage_ = true;
  const auto events = Run(*TextReply(true), {Text("a", {{"num_input_tokens", int64_t{3}}}),
                                             Text("b", {{"num_output_tokens", int64_t{2}}})});
  EXPECT_NE(events[0].find(R"("finish_reason":null}],"usage":null})"), std::string::npos);
  EXPECT_NE(
      events.back().find(R"("choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}})"
                         "\n\ndata: [DONE]\n\n"),
      std::string::npos);
}

TEST_F(Reply, PassesToolCallsThrough) {
  const auto whole =
      Response({{"text_output", ""}, {"tool_calls", R"([{"function":{"name":"f","arguments":"{}"}}])"}});
  EXPECT_NE(
      Run(*TextReply(false), {whole})
          .back()
          .find(
              R"("message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"function":{"name":"f","arguments":"{}"},"id":"call_id1_0_0","type":"function"}]},"logprobs":null,"finish_reason":"tool_calls")"),
      std::string::npos);
  const auto begin =
      Response({{"tool_calls",
                 R"([{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{\"a"}}])"}});
  const auto more = Response({{"tool_calls", R"([{"index":0,"function":{"arguments":"\":1}"}}])"}});
  EXPECT_NE(
      Run(*TextReply(false), {begin, more})
          .back()
          .find(
              R"("tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}])"),
      std::string::npos);
  EXPECT_NE(Run(*TextReply(true), {begin, more})[1].find(
                R"("delta":{"tool_calls":[{"index":0,"function":{"arguments":"\":1}"}}]})"),
            std::string::npos);
}

TEST_F(Reply, InterleavesChoices) {
  const auto reply = TextReply(false, 2);
  const std::string body =
      Run(*reply, {Text("a", {{"index", int64_t{1}}}), Text("b"), Text("c", {{"index", int64_t{1}}})}).back();
  EXPECT_NE(body.find(R"({"index":0,"message":{"role":"assistant","content":"b")"), std::string::npos);
  EXPECT_NE(body.find(R"({"index":1,"message":{"role":"assistant","content":"ac")"), std::string::npos);
  EXPECT_EQ(Run(*TextReply(false), {Text("a", {{"index", int64_t{1}}})}).front(),
            "the model's output 'index' is 1, but there are 1 choices");
}

TEST_F(Reply, JoinsLogprobs) {
  const auto piece = [](const char* token) {
    return Response(
        {{"text_output", token}, {"logprobs", std::string(R"({"content":[{"token":")") + token + "\"}]}"}});
  };
  EXPECT_NE(Run(*TextReply(false), {piece("a"), piece("b")})
                .back()
                .find(R"("logprobs":{"content":[{"token":"a"},{"token":"b"}]})"),
            std::string::npos);
}

TEST_F(Reply, RefusesOutputsOfAnotherForm) {
  HeapAllocator heap;
  InferenceResponse two;
  two.outputs.push_back(TextTensor("text_output", {2}, std::vector<std::string>{"a", "b"}, heap).value());
  EXPECT_EQ(Run(*TextReply(false), {two}).front(),
            "the model's output 'text_output' must be one text, but it is BYTES [2]");
  EXPECT_EQ(
      Run(*TextReply(false), {Response({{"tool_calls", "{}"}})}).front(),
      "the model's output 'tool_calls' must be JSON, a list of objects with 'function', an object, but it "
      "is {}");
}

TEST_F(Reply, RepairsTextThatIsNotUtf8) {
  EXPECT_NE(Run(*TextReply(false), {Text("a\xff")}).back().find("\"a\xef\xbf\xbd\""), std::string::npos);
  const auto reason = Response({{"text_output", "a"}, {"finish_reason", "\xff"}});
  EXPECT_NE(Run(*TextReply(false), {reason}).back().find("\"finish_reason\":\"\xef\xbf\xbd\""),
            std::string::npos);
}

TEST_F(Reply, CompletesTheJsonOfARawModel) {
  const auto raw = [](const char* json) { return Response({{"openai_response", json}}); };
  EXPECT_EQ(Run(*MakeRawReply(Facts(true)), {raw(R"({"choices":[]})"), raw("[DONE]")}),
            (std::vector<std::string>{
                R"(data: {"choices":[],"object":"chat.completion.chunk","model":"m","id":"id1","created":7})"
                "\n\n",
                "", kEnd}));
  EXPECT_EQ(Run(*MakeRawReply(Facts(false)), {raw(R"({"id":"own","choices":[]})")}).back(),
            R"({"id":"own","choices":[],"object":"chat.completion","model":"m","created":7})");
  EXPECT_EQ(Run(*MakeRawReply(Facts(false)), {raw("{}"), raw("{}")})[1],
            "the model made a second response to a request that asked for one reply");
  EXPECT_EQ(Run(*MakeRawReply(Facts(false)), {raw("no")}).front(),
            "the model's output 'openai_response' must be a JSON object, but it is no");
  EXPECT_EQ(Run(*MakeRawReply(Facts(false)), {}).back(), "the model ended the request without a reply");
}

TEST_F(Reply, FramesTheTextOfAGraph) {
  const auto text = [](std::string_view text) {
    InferenceResponse response;
    response.outputs.emplace_back().data = CopyToHeap(std::as_bytes(std::span(text)));
    return response;
  };
  EXPECT_EQ(
      Run(*MakePayloadReply(true), {text("a\nb"), text("data: c"), text("data: d\n\n"), text(": note")}),
      (std::vector<std::string>{"data: a\ndata: b\n\n", "data: c\n\n", "data: d\n\n", ": note\n\n", kEnd}));
  EXPECT_EQ(Run(*MakePayloadReply(true), {text("data: [DONE]\n\n")}),
            (std::vector<std::string>{"data: [DONE]\n\n", ""}));
  // Text about the end is not the end.
  EXPECT_EQ(Run(*MakePayloadReply(true),
                {text("data: {\"x\":\"say [DONE] now\"}"), text("a\rb\r\nc"), text("[DONE]")}),
            (std::vector<std::string>{"data: {\"x\":\"say [DONE] now\"}\n\n", "data: a\ndata: b\ndata: c\n\n",
                                      "", kEnd}));
  EXPECT_EQ(Run(*MakePayloadReply(false), {text("{}"), text("more")}).back(), "{}");
  EXPECT_EQ(Run(*MakePayloadReply(false), {}).back(), "the graph ended the request without a reply");
}

}  // namespace
}  // namespace braid
