// Parses the positions in texts that users write.
#include <cstdint>
#include <string_view>

#include "check/config_rules.h"
#include "check/json_fields.h"
#include "check/text_file.h"
#include "model_config.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid::check;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  Findings findings;
  if (data[0] % 2 == 0) {
    const TextFile file("config.pbtxt", std::string(text), inference::ModelConfig::default_instance());
    file.ReportFaults("m", findings);
    ApplyModelRules(file, "m", {}, findings);
  } else {
    ApplyOvmsRules("config.json", JsonFields(text), findings);
  }
  return 0;
}
