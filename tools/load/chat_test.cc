#include "load/chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/json.h"

namespace braid::load {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(EncodeChat, SendsFieldsAndParametersAndAsksForAStream) {
  InferRequest request;
  request.model = "llm";
  request.inputs = MakeChatStep("it's \"me\"").inputs;
  request.parameters = {{"max_tokens", int64_t{4}}, {"user", std::string("u")}};
  EXPECT_EQ(
      EncodeChat(request),
      R"({"model":"llm","messages":[{"role":"user","content":"it's \"me\""}],"max_tokens":4,"user":"u",)"
      R"("stream":true,"stream_options":{"include_usage":true}})");
  // The command's model answers, and with a stream, even if a data file says otherwise.
  request.inputs =
      ReadChatFile(R"({"data": [{"payload": [{"model": "x", "messages": [], "stream": false}]}]})", "f")
          ->streams[0][0]
          .inputs;
  request.parameters.clear();
  EXPECT_EQ(EncodeChat(request),
            R"({"model":"llm","messages":[],"stream":true,"stream_options":{"include_usage":true}})");
}

TEST(ChatEvents, HaveTextsAndTheCountOfTokens) {
  std::vector<std::string> texts;
  int64_t tokens = 0;
  for (
      const char* const data :
      {R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null})",
       R"({"choices":[{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":null}]})",
       R"({"choices":[{"index":0,"delta":{"content":"one "}},{"index":1,"delta":{"content":"two"}}]})",
       R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})",
       R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":7,"total_tokens":10}})", "[DONE]"}) {
    const auto event = ReadChatEvent(data);
    ASSERT_TRUE(event.ok()) << event.status().message();
    texts.push_back(event->text);
    tokens += event->tokens;
  }
  EXPECT_THAT(texts, ElementsAre("", "hm", "one two", "", "", ""));
  EXPECT_EQ(tokens, 7);
  // A server that does not stream.
  EXPECT_EQ(
      ReadChatEvent(R"({"choices":[{"message":{"content":"whole"}}],"usage":{"completion_tokens":2}})")->text,
      "whole");
}

TEST(ChatEvents, MayBeErrors) {
  const auto error = [](const char* data) { return ReadChatEvent(data).status().message(); };
  EXPECT_EQ(error(R"({"error":{"message":"out of tokens","type":"server_error","param":null,"code":null}})"),
            "out of tokens");
  EXPECT_EQ(error(R"({"error":"plain"})"), "plain");
  EXPECT_EQ(error("{"), "malformed event: {");
  EXPECT_THAT(error(R"({"choices":5,"usage":{"completion_tokens":"x"}})"), HasSubstr("malformed event: "));
}

TEST(ChatFile, HasTheFieldsOfEachRequest) {
  const auto set = ReadChatFile(
      R"({"data": [{"messages": [{"role": "user", "content": "a"}], "max_tokens": 3}, {"messages": []}]})",
      "f");
  ASSERT_TRUE(set.ok()) << set.status().message();
  ASSERT_EQ(set->streams.size(), 2U);
  ASSERT_EQ(set->streams[0][0].inputs.size(), 2U);
  EXPECT_EQ(set->streams[0][0].inputs[1].name, "max_tokens");
  EXPECT_EQ(set->streams[0][0].inputs[1].data, "3");
  const auto text = [](const char* file) { return ReadChatFile(file, "f").status().message(); };
  EXPECT_THAT(text("{"), HasSubstr("f: "));
  EXPECT_EQ(text(R"({"data": []})"), "f: a data file must be an object with the list \"data\"");
  EXPECT_EQ(text(R"({"data": [{"messages": []}, {"prompt": "x"}]})"),
            "f: data[1] must be an object of the request's fields, with \"messages\"");
}

}  // namespace
}  // namespace braid::load
