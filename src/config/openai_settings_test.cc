#include "config/openai_settings.h"

#include <gtest/gtest.h>

#include "config/model_config.h"

namespace braid {
namespace {

inference::ModelConfig Config(const std::string& more) {
  return ParseConfigText("name: \"m\" backend: \"python\" " + more, "config.pbtxt").value();
}

std::string Tensors(const std::string& input, const std::string& output, const std::string& output_type) {
  return "input { name: \"" + input + "\" data_type: TYPE_STRING dims: 1 } output { name: \"" + output +
         "\" data_type: " + output_type + " dims: 1 } ";
}

std::string Parameter(const std::string& name, const std::string& value) {
  return "parameters { key: \"" + name + "\" value { string_value: \"" + value + "\" } } ";
}

TEST(OpenAiSettings, TensorsDecideWithoutAParameter) {
  const auto kind = [](const std::string& config) { return OpenAiConventionOf(Config(config)).kind; };
  EXPECT_EQ(kind(Tensors("text_input", "text_output", "TYPE_STRING")), OpenAiKind::kText);
  EXPECT_EQ(kind(Tensors("text_input", "embedding", "TYPE_FP32")), OpenAiKind::kEmbedding);
  EXPECT_EQ(kind(Tensors("openai_request", "openai_response", "TYPE_STRING")), OpenAiKind::kRaw);
  EXPECT_EQ(kind(Tensors("text_input", "text_output", "TYPE_FP32")), OpenAiKind::kNone);
  EXPECT_EQ(kind(Tensors("text_input", "text_output", "TYPE_STRING") + Parameter("openai", "off")),
            OpenAiKind::kNone);
}

TEST(OpenAiSettings, ATemplateRendersChatsOfModelsWithoutMessages) {
  const std::string text = Tensors("text_input", "text_output", "TYPE_STRING");
  EXPECT_TRUE(OpenAiConventionOf(Config(text)).renders_chats);
  EXPECT_FALSE(
      OpenAiConventionOf(Config(text + "input { name: \"messages\" data_type: TYPE_STRING dims: 1 }"))
          .renders_chats);
  EXPECT_FALSE(OpenAiConventionOf(Config(text + "platform: \"ensemble\"")).renders_chats);
}

TEST(OpenAiSettings, ReadsTheListOfIgnoredFields) {
  const std::string text = Tensors("text_input", "text_output", "TYPE_STRING");
  EXPECT_EQ(
      OpenAiConventionOf(Config(text + Parameter("openai_ignore", " temperature,top_p , seed,"))).ignored,
      (std::vector<std::string>{"temperature", "top_p", "seed"}));
}

TEST(OpenAiSettings, FindsFaults) {
  const FieldFault unknown = CheckOpenAiSettings(Config(Parameter("openai", "chat")));
  EXPECT_EQ(unknown.status.message(),
            "parameter openai of model 'm' is 'chat'; expected text, raw, embedding or off");
  EXPECT_EQ(unknown.field, "parameters[openai].value.string_value");
  EXPECT_EQ(
      CheckOpenAiSettings(Config(Parameter("openai", "embedding"))).status.message(),
      "parameter openai of model 'm' is 'embedding', which needs an input 'text_input' of TYPE_STRING and "
      "an output 'embedding' of TYPE_FP32");
  EXPECT_TRUE(CheckOpenAiSettings(Config(Parameter("openai", "off"))).ok());
  // Nothing is accepted and ignored.
  const std::string raw = Tensors("openai_request", "openai_response", "TYPE_STRING");
  EXPECT_EQ(CheckOpenAiSettings(Config(raw + Parameter("openai_ignore", "seed"))).field,
            "parameters[openai_ignore].value.string_value");
  EXPECT_EQ(CheckOpenAiSettings(Config(raw + Parameter("openai_chat_template", "x.jinja"))).field,
            "parameters[openai_chat_template].value.string_value");
  const std::string text = Tensors("text_input", "text_output", "TYPE_STRING");
  EXPECT_TRUE(CheckOpenAiSettings(Config(text + Parameter("openai_chat_template", "x.jinja") +
                                         Parameter("openai_ignore", "seed")))
                  .ok());
  EXPECT_EQ(CheckOpenAiSettings(Config(text + Parameter("openai_ignore", "messages"))).field,
            "parameters[openai_ignore].value.string_value");
}

}  // namespace
}  // namespace braid
