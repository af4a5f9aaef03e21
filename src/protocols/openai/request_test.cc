#include "protocols/openai/request.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

FieldFault Read(OpenAiRoute route, const std::string& text) {
  OpenAiRequest request;
  return ReadOpenAiRequest(route, text, request);
}

TEST(OpenAiRequest, ReadsWhatTheServerNeeds) {
  OpenAiRequest request;
  ASSERT_TRUE(ReadOpenAiRequest(OpenAiRoute::kChat,
                                R"({"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,
                                    "stream_options":{"include_usage":true},"n":2,"stop":["a","b"],
                                    "max_tokens":3,"max_completion_tokens":4,"temperature":null,"top_k":5})",
                                request)
                  .ok());
  EXPECT_EQ(request.model, "m");
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_EQ(request.choices, 2);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.max_tokens, 4);
  EXPECT_EQ(FieldOf(request.body, "temperature"), nullptr);
  EXPECT_EQ(*FieldOf(request.body, "top_k"), 5);
}

TEST(OpenAiRequest, NamesTheFieldThatIsWrong) {
  const std::string chat = R"({"model":"m","messages":[{"role":"user","content":"hi"}],)";
  struct Case {
    OpenAiRoute route;
    std::string body;
    std::string field;
    std::string message;
  };
  using enum OpenAiRoute;
  for (const Case& c : {
           Case{kChat, "[]", "", "the body must be a JSON object"},
           Case{kChat, "{}", "model", "'model' is missing; it must be the name of a model"},
           Case{kChat, R"({"model":7})", "model", "'model' must be the name of a model, but it is 7"},
           Case{kChat, R"({"model":"m"})", "messages",
                "'messages' is missing; it must be a list of messages"},
           Case{kChat, R"({"model":"m","messages":[]})", "messages",
                "'messages' must be a list of at least one message, but it is []"},
           Case{kChat, R"({"model":"m","messages":[{"content":"x"}]})", "messages[0].role",
                "'messages[0].role' is missing; it must be the name of a role"},
           Case{kChat, R"({"model":"m","messages":[{"role":"boss","content":"x"}]})", "messages[0].role",
                "'messages[0].role' must be system, developer, user, assistant, tool or function, but it is "
                "\"boss\""},
           Case{kChat, R"({"model":"m","messages":[{"role":"user","content":[{"type":"text"}]}]})",
                "messages[0].content[0]",
                R"('messages[0].content[0]' must be an object with a text, but it is {"type":"text"})"},
           Case{kChat, chat + R"("temperature":3})", "temperature",
                "'temperature' must be a number from 0 to 2, but it is 3"},
           Case{kChat, chat + R"("n":0})", "n", "'n' must be an integer from 1 to 128, but it is 0"},
           Case{kChat, chat + R"("n":18446744073709551615})", "n",
                "'n' must be an integer from 1 to 128, but it is 18446744073709551615"},
           Case{kChat, chat + R"("stream":1})", "stream", "'stream' must be true or false, but it is 1"},
           Case{kChat, chat + R"("stream_options":{}})", "stream_options",
                "'stream_options' needs \"stream\": true"},
           Case{kChat, chat + R"("stop":""})", "stop",
                "'stop' must be a text, or a list of at most 64 texts, none of them empty, but it is \"\""},
           Case{kCompletion, R"({"model":"m","logprobs":true})", "logprobs",
                "'logprobs' must be an integer from 0 to 5, but it is true"},
           Case{kEmbedding, R"({"model":"m","encoding_format":"int8"})", "encoding_format",
                R"('encoding_format' must be "float" or "base64", but it is "int8")"},
       }) {
    const FieldFault fault = Read(c.route, c.body);
    EXPECT_EQ(fault.status, InvalidArgumentError(c.message)) << c.body;
    EXPECT_EQ(fault.field, c.field) << c.body;
  }
  const FieldFault no_json = Read(kChat, "{");
  EXPECT_TRUE(no_json.status.message().starts_with("the body is not JSON: parse error at line 1, column 2"))
      << no_json.status;
  EXPECT_TRUE(Read(kChat, chat + R"("n":1})").ok());
}

TEST(OpenAiRequest, JoinsTheTextsOfAMessage) {
  EXPECT_EQ(TextOfContent(Json("a")), "a");
  EXPECT_EQ(TextOfContent(ParseJson(R"([{"type":"text","text":"a"},{"type":"text","text":"b"}])")), "ab");
  EXPECT_EQ(TextOfContent(ParseJson(R"([{"type":"image_url"}])")), std::nullopt);
}

}  // namespace
}  // namespace braid
