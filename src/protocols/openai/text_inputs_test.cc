#include "protocols/openai/text_inputs.h"

#include <gtest/gtest.h>

#include <cstring>

#include "serving/parameters.h"

namespace braid {
namespace {

class TextInputs : public testing::Test {
 protected:
  TextInputs() {
    info_.name = "m";
    info_.decoupled = true;
    info_.openai = {.kind = OpenAiKind::kText, .renders_chats = true};
    Declare("text_input", DataType::kBytes);
  }
  void Declare(std::string name, DataType type, Shape shape = {1}) {
    TensorSpec& spec = info_.inputs.emplace_back();
    spec.name = std::move(name);
    spec.type = type;
    spec.shape = std::move(shape);
    spec.optional = spec.name != "text_input";
  }
  FieldFault Fill(const std::string& fields, OpenAiRoute route = OpenAiRoute::kCompletion) {
    OpenAiRequest from;
    const std::string prompt =
        route == OpenAiRoute::kChat ? R"("messages":[{"role":"user","content":"hi"}])" : R"("prompt":"p")";
    BRAID_RETURN_IF_FAULT(ReadOpenAiRequest(
        route, "{\"model\":\"m\"," + prompt + (fields.empty() ? "" : ",") + fields + "}", from));
    request_ = std::make_unique<InferenceRequest>();
    cuts_ = {};
    IgnoreFields(info_.openai.ignored, from);
    return FillTextInputs(from, info_, heap_, *request_, cuts_);
  }
  // Returns "name[shape]bytes", without the length of a text; "" for none.
  std::string Input(std::string_view name) const {
    for (const Tensor& input : request_->inputs) {
      if (input.name != name) continue;
      const std::string bytes(input.data.text());
      return input.name + ShapeToString(input.shape) +
             (input.type == DataType::kBytes ? bytes.substr(4) : bytes);
    }
    return "";
  }

  ServableInfo info_;
  HeapAllocator heap_;
  std::unique_ptr<InferenceRequest> request_;
  TextCuts cuts_;
};

template <class T>
std::string Bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

TEST_F(TextInputs, SendsTheDeclaredFieldsInTheirTypes) {
  Declare("temperature", DataType::kFp32);
  Declare("max_tokens", DataType::kInt32);
  Declare("stream", DataType::kBool);
  Declare("stop_words", DataType::kBytes, {-1});
  Declare("response_format", DataType::kBytes);
  Declare("top_k", DataType::kInt64);
  ASSERT_TRUE(Fill(R"("temperature":0.5,"max_tokens":9,"stop":"x","response_format":{"type":"json_object"},
                      "top_k":3)")
                  .ok());
  EXPECT_EQ(Input("text_input"), "text_input[1]p");
  EXPECT_EQ(Input("temperature"), "temperature[1]" + Bytes(0.5F));
  EXPECT_EQ(Input("max_tokens"), "max_tokens[1]" + Bytes(9));
  EXPECT_EQ(Input("stream"), "stream[1]" + Bytes(false));
  EXPECT_EQ(Input("stop_words"), "stop_words[1]x");
  EXPECT_EQ(Input("response_format"), R"(response_format[1]{"type":"json_object"})");
  EXPECT_EQ(Input("top_k"), "top_k[1]" + Bytes(int64_t{3}));
  EXPECT_TRUE(cuts_.stop.empty());
  EXPECT_FALSE(cuts_.tokens);
  EXPECT_FALSE(request_->renders_chat);
}

TEST_F(TextInputs, LeavesCutsToTheServer) {
  ASSERT_TRUE(Fill(R"("stop":["a","b"],"max_tokens":7)").ok());
  EXPECT_EQ(cuts_.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(cuts_.tokens, 7);
  info_.decoupled = false;
  EXPECT_EQ(Fill(R"("max_tokens":7)").status.message(),
            "'max_tokens' is not supported: model 'm' answers in one piece and has no input 'max_tokens'");
}

TEST_F(TextInputs, RefusesWhatTheModelCannotHonour) {
  for (const char* field : {R"("n":2)", R"("temperature":0.2)", R"("logprobs":1)", R"("echo":true)",
                            R"("seed":0)", R"("suffix":"x")", R"("logit_bias":{"1":1})"}) {
    const FieldFault fault = Fill(field);
    const std::string name = fault.field;
    EXPECT_EQ(fault.status,
              InvalidArgumentError("'" + name + "' is not supported: model 'm' has no input '" + name + "'"))
        << field;
  }
  for (const char* field : {R"("n":1)", R"("temperature":1)", R"("top_p":1.0)", R"("frequency_penalty":0)",
                            R"("echo":false)", R"("user":"u")", R"("logit_bias":{})", R"("suffix":"")"}) {
    EXPECT_TRUE(Fill(field).ok()) << field;
    EXPECT_TRUE(request_->parameters.empty()) << field;
  }
  EXPECT_EQ(Fill(R"("tools":[{"type":"function"}])", OpenAiRoute::kChat).field, "tools");
  EXPECT_TRUE(
      Fill(R"("tools":[],"tool_choice":"auto","response_format":{"type":"text"})", OpenAiRoute::kChat).ok());
  info_.openai.ignored = {"temperature"};
  EXPECT_TRUE(Fill(R"("temperature":0.2)").ok());
}

TEST_F(TextInputs, GivesUnknownFieldsAsParameters) {
  ASSERT_TRUE(Fill(R"("top_k":3,"mode":"fast","deep":{"a":1},"ratio":0.5,"on":true)").ok());
  EXPECT_EQ(ParametersToJson(request_->parameters),
            R"({"top_k":3,"mode":"fast","deep":"{\"a\":1}","ratio":0.5,"on":true})");
  EXPECT_EQ(Fill(R"("sequence_id":3)").field, "sequence_id");
  EXPECT_EQ(Fill(R"("text_input":"x")").field, "text_input");
  std::string many = R"("f0":0)";
  for (int i = 1; i < 200; ++i) many += ",\"f" + std::to_string(i) + "\":0";
  EXPECT_EQ(Fill(many).status.message(), "the request has too many fields that are unknown to OpenAI's API");
}

TEST_F(TextInputs, GathersSamplingParameters) {
  Declare("sampling_parameters", DataType::kBytes);
  ASSERT_TRUE(Fill(R"("temperature":0.2,"stop":"x","n":2,"top_k":3,"stream":false)").ok());
  EXPECT_EQ(Input("sampling_parameters"),
            R"(sampling_parameters[1]{"temperature":0.2,"stop":"x","n":2,"top_k":3})");
  EXPECT_TRUE(cuts_.stop.empty());
  EXPECT_TRUE(request_->parameters.empty());
}

TEST_F(TextInputs, SendsAChatToTheTemplateOrToTheModel) {
  ASSERT_TRUE(Fill(R"("chat_template_kwargs":{"thinking":false})", OpenAiRoute::kChat).ok());
  EXPECT_TRUE(request_->renders_chat);
  EXPECT_EQ(Input("text_input"),
            R"(text_input[1]{"messages":[{"role":"user","content":"hi"}],"thinking":false})");
  EXPECT_TRUE(request_->parameters.empty());
  info_.openai.renders_chats = false;
  EXPECT_EQ(Fill("", OpenAiRoute::kChat).field, "messages");
  Declare("messages", DataType::kBytes);
  ASSERT_TRUE(Fill("", OpenAiRoute::kChat).ok());
  EXPECT_FALSE(request_->renders_chat);
  EXPECT_EQ(Input("messages"), R"(messages[1][{"role":"user","content":"hi"}])");
  EXPECT_EQ(Input("text_input"), "text_input[1]hi");
}

TEST_F(TextInputs, AFieldOfAnotherRouteIsRefused) {
  EXPECT_EQ(Fill(R"("messages":[])").field, "messages");
  EXPECT_EQ(Fill(R"("prompt":"x")", OpenAiRoute::kChat).field, "prompt");
}

TEST_F(TextInputs, ATemplateGetsToolsButNoChoiceOfOne) {
  info_.outputs.emplace_back().name = "tool_calls";
  const std::string tools = R"("tools":[{"type":"function"}])";
  for (const char* more : {"", R"(,"tool_choice":"auto")", R"(,"parallel_tool_calls":true)"}) {
    ASSERT_TRUE(Fill(tools + more, OpenAiRoute::kChat).ok()) << more;
    EXPECT_NE(Input("text_input").find("\"tools\""), std::string::npos);
  }
  ASSERT_TRUE(Fill(tools + R"(,"tool_choice":"none")", OpenAiRoute::kChat).ok());
  EXPECT_EQ(Input("text_input").find("\"tools\""), std::string::npos);
  EXPECT_EQ(Fill(tools + R"(,"tool_choice":"required")", OpenAiRoute::kChat).field, "tool_choice");
  EXPECT_EQ(Fill(tools + R"(,"parallel_tool_calls":false)", OpenAiRoute::kChat).field, "parallel_tool_calls");
  EXPECT_TRUE(Fill(R"("parallel_tool_calls":false)", OpenAiRoute::kChat).ok());
}

TEST_F(TextInputs, SaysWhichValueDoesNotFit) {
  Declare("seed", DataType::kUint8);
  EXPECT_EQ(Fill(R"("seed":300)").status.message(),
            "'seed' must be an integer of UINT8 for the model's input of that name, but it is 300");
  Declare("top_k", DataType::kInt32, {2});
  EXPECT_EQ(Fill(R"("top_k":[1,2,3])").status.message(),
            "'top_k' has 3 values, which do not fit the shape [2] of the model's input");
  Declare("half", DataType::kFp16);
  EXPECT_EQ(Fill(R"("half":1)").status.message(),
            "'half' cannot be given: the model's input has the datatype FP16");
}

TEST_F(TextInputs, AClientsSettingReplacesTheServers) {
  Declare("return_num_input_tokens", DataType::kBool);
  ASSERT_TRUE(Fill(R"("return_num_input_tokens":false)").ok());
  EXPECT_EQ(Input("return_num_input_tokens"), "return_num_input_tokens[1]" + Bytes(false));
  EXPECT_EQ(request_->inputs.size(), 2u);
}

TEST_F(TextInputs, TakesOnePrompt) {
  OpenAiRequest from;
  ASSERT_TRUE(ReadOpenAiRequest(OpenAiRoute::kCompletion, R"({"model":"m","prompt":[1,2]})", from).ok());
  InferenceRequest request;
  EXPECT_EQ(
      FillTextInputs(from, info_, heap_, request, cuts_).status.message(),
      "'prompt' must be one text, but it is [1,2]; send one request for each text, and texts instead of "
      "tokens");
}

TEST_F(TextInputs, FillsRowsOfABatch) {
  info_.max_batch_size = 4;
  info_.inputs.clear();
  Declare("text_input", DataType::kBytes, {-1, 1});
  Declare("stop", DataType::kBytes, {-1, -1});
  ASSERT_TRUE(Fill(R"("stop":["a","b"])").ok());
  EXPECT_EQ(Input("text_input"), "text_input[1,1]p");
  EXPECT_EQ(Input("stop").substr(0, 9), "stop[1,2]");
}

}  // namespace
}  // namespace braid
