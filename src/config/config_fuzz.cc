// Fuzzes the configuration formats that users write: config.pbtxt, its JSON form, and config.json.
#include "config/config_json.h"
#include "config/model_config.h"
#include "config/ovms_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
    case 1: {
      auto config = data[0] % 3 == 0 ? ParseConfigText(text, "config.pbtxt") : ConfigFromJson(text);
      if (!config.ok() || !CompleteNames(*config, "m").ok()) return 0;
      (void)ValidateModelFile(*config);
      (void)ValidateConfig(*config);
      return 0;
    }
    default:
      (void)ParseOvmsConfig(text, "/nowhere");
      return 0;
  }
}
