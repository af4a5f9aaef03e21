#include "config/openai_settings.h"

#include <algorithm>
#include <array>
#include <string>

#include "config/model_config.h"

namespace braid {
namespace {

using inference::ModelConfig;

struct Convention {
  OpenAiKind kind;
  std::string_view name;
  std::string_view input;  // of type BYTES
  std::string_view output;
  inference::DataType output_type;
};
// In the order in which the tensors of a model are tried.
constexpr Convention kConventions[] = {
    {OpenAiKind::kText, "text", kPromptInput, kTextOutput, inference::TYPE_STRING},
    {OpenAiKind::kRaw, "raw", kOpenAiRequestInput, kOpenAiResponseOutput, inference::TYPE_STRING},
    {OpenAiKind::kEmbedding, "embedding", kPromptInput, kEmbeddingOutput, inference::TYPE_FP32},
};
constexpr std::string_view kOff = "off";

template <class Tensors>
bool Declares(const Tensors& tensors, std::string_view name, inference::DataType type) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const auto& tensor) { return tensor.name() == name && tensor.data_type() == type; });
}

bool Fits(const ModelConfig& config, const Convention& convention) {
  return Declares(config.input(), convention.input, inference::TYPE_STRING) &&
         Declares(config.output(), convention.output, convention.output_type);
}

std::string ValueOf(const ModelConfig& config, std::string_view parameter) {
  const auto found = config.parameters().find(std::string(parameter));
  return found == config.parameters().end() ? "" : found->second.string_value();
}

// Returns null for none.
const Convention* Chosen(const ModelConfig& config) {
  const std::string name = ValueOf(config, kOpenAiParameter);
  for (const Convention& convention : kConventions) {
    if (name.empty() ? Fits(config, convention) : convention.name == name) return &convention;
  }
  return nullptr;
}

// Splits "temperature, top_p".
std::vector<std::string> Names(std::string_view list) {
  std::vector<std::string> names;
  for (size_t at = 0; at <= list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    std::string_view name = list.substr(at, comma - at);
    name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
    name = name.substr(0, name.find_last_not_of(' ') + 1);
    if (!name.empty()) names.emplace_back(name);
    at = comma + 1;
  }
  return names;
}

}  // namespace

OpenAiConvention OpenAiConventionOf(const ModelConfig& config) {
  OpenAiConvention found;
  const Convention* chosen = Chosen(config);
  if (chosen == nullptr) return found;
  found.kind = chosen->kind;
  found.ignored = Names(ValueOf(config, kOpenAiIgnoreParameter));
  found.renders_chats = found.kind == OpenAiKind::kText && !IsEnsemble(config) &&
                        !Declares(config.input(), kMessagesInput, inference::TYPE_STRING);
  return found;
}

FieldFault CheckOpenAiSettings(const ModelConfig& config) {
  constexpr std::array kNeeded = {"model", "messages", "prompt", "input", "stream", "stream_options"};
  for (const std::string& ignored : Names(ValueOf(config, kOpenAiIgnoreParameter))) {
    if (std::find(kNeeded.begin(), kNeeded.end(), ignored) == kNeeded.end()) continue;
    return InvalidField("parameter openai_ignore of model '" + config.name() + "' lists '" + ignored +
                            "', which every request needs",
                        "parameters[" + std::string(kOpenAiIgnoreParameter) + "].value.string_value");
  }
  const std::string name = ValueOf(config, kOpenAiParameter);
  if (name == kOff) return {};
  const OpenAiConvention found = OpenAiConventionOf(config);
  const bool ignores = found.kind == OpenAiKind::kText || found.kind == OpenAiKind::kEmbedding;
  for (const auto& [parameter, works] :
       {std::pair(kOpenAiIgnoreParameter, ignores), std::pair(kChatTemplateParameter, found.renders_chats)}) {
    if (works || ValueOf(config, parameter).empty()) continue;
    return InvalidField("parameter " + std::string(parameter) + " of model '" + config.name() +
                            "' has no effect: " +
                            (parameter == kOpenAiIgnoreParameter
                                 ? "only models with the convention text or embedding get single fields"
                                 : "only text models without an input 'messages' have a chat template"),
                        "parameters[" + std::string(parameter) + "].value.string_value");
  }
  if (name.empty()) return {};
  const std::string field = "parameters[" + std::string(kOpenAiParameter) + "].value.string_value";
  const std::string who =
      "parameter openai of model '" + config.name() + "' is '" + Shortened(name, 64) + "'";
  const Convention* chosen = Chosen(config);
  if (chosen == nullptr) return InvalidField(who + "; expected text, raw, embedding or off", field);
  if (Fits(config, *chosen)) return {};
  return InvalidField(who + ", which needs an input '" + std::string(chosen->input) +
                          "' of TYPE_STRING and an output '" + std::string(chosen->output) + "' of " +
                          inference::DataType_Name(chosen->output_type),
                      field);
}

}  // namespace braid
