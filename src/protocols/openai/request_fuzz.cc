// Fuzzes the bodies of OpenAI's API, and the inputs that a text model gets of them.
#include "protocols/openai/request.h"

#include "base/testing/fuzz_input.h"
#include "protocols/openai/text_inputs.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  static const ServableInfo* const info = [] {
    auto* made = new ServableInfo;
    made->name = "m";
    made->openai = {.kind = OpenAiKind::kText, .renders_chats = true};
    for (const auto& [name, type] : {std::pair("text_input", DataType::kBytes),
                                     {"seed", DataType::kInt8},
                                     {"temperature", DataType::kFp32},
                                     {"stop", DataType::kBytes},
                                     {"tools", DataType::kBytes},
                                     {"max_tokens", DataType::kUint16}}) {
      TensorSpec& spec = made->inputs.emplace_back();
      spec.name = name;
      spec.type = type;
      spec.shape = {-1};
    }
    return made;
  }();
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const OpenAiRoute route : {OpenAiRoute::kChat, OpenAiRoute::kCompletion, OpenAiRoute::kEmbedding}) {
    OpenAiRequest read;
    if (!ReadOpenAiRequest(route, body, read).ok() || route == OpenAiRoute::kEmbedding) continue;
    HeapAllocator heap;
    InferenceRequest request;
    TextCuts cuts;
    (void)FillTextInputs(read, *info, heap, request, cuts);
  }
  return 0;
}
