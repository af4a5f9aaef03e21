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
                "'stop' must be a text of 1 to 256 bytes, or a list of at most 16 of them, but it is \"\""},
           Case{kChat, chat + R"("echo":"yes"})", "echo", "'echo' must be true or false, but it is \"yes\""},
           Case{kCompletion, R"({"model":"m","max_completion_tokens":"x"})", "max_completion_tokens",
                "'max_completion_tokens' must be a positive integer, but it is \"x\""},
           Case{kChat, R"({"model":"m","messages":[{"role":"assistant","tool_calls":"abc"}]})",
                "messages[0].tool_calls",
                "'messages[0].tool_calls' must be a list of objects with 'function', an object, but it is "
                "\"abc\""},
           Case{kChat, "\xef\xbb\xbf{}", "", "the body must be JSON without a byte order mark"},
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

TEST(OpenAiRequest, RefusesNumbersOutOfRange) {
  const FieldFault fault =
      Read(OpenAiRoute::kCompletion, R"({"model":"m","prompt":"x","temperature":1e999})");
  EXPECT_EQ(fault.status.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(fault.status.message().starts_with("the body is not JSON: ")) << fault.status;
}

// Members are compared with each other, so their number is limited.
TEST(OpenAiRequest, RefusesObjectsWithTooManyMembers) {
  const auto body = [](int members) {
    std::string text = R"({"model":"m","prompt":"x","logit_bias":{"0":1)";
    for (int i = 1; i < members; ++i) text += ",\"" + std::to_string(i) + "\":1";
    return text + "}}";
  };
  EXPECT_TRUE(Read(OpenAiRoute::kCompletion, body(2000)).ok());
  EXPECT_EQ(Read(OpenAiRoute::kCompletion, body(20000)).status.message(),
            "the body has objects with too many members");
}

TEST(OpenAiRequest, IgnoresFieldsAsIfTheyWereAbsent) {
  OpenAiRequest request;
  ASSERT_TRUE(ReadOpenAiRequest(OpenAiRoute::kCompletion,
                                R"({"model":"m","n":3,"stop":"x","max_tokens":1,"max_completion_tokens":2})",
                                request)
                  .ok());
  IgnoreFields(std::vector<std::string>{"n", "max_completion_tokens", "absent"}, request);
  EXPECT_EQ(request.choices, 1);
  EXPECT_EQ(request.max_tokens, 1);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"x"}));
  EXPECT_EQ(FieldOf(request.body, "n"), nullptr);
}

TEST(OpenAiRequest, JoinsTheTextsOfAMessage) {
  EXPECT_EQ(TextOfContent(Json("a")), "a");
  EXPECT_EQ(TextOfContent(ParseJson(R"([{"type":"text","text":"a"},{"type":"text","text":"b"}])")), "ab");
  EXPECT_EQ(TextOfContent(ParseJson(R"([{"type":"image_url"}])")), std::nullopt);
}

}  // namespace
}  // namespace braid
