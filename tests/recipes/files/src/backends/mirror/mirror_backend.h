// MirrorBackend: its models return each input as the output in the same place of the configuration.
#pragma once

#include "scheduling/backend.h"

namespace braid {

class MirrorBackend final : public Backend {
 public:
  std::string_view name() const override { return "mirror"; }
  std::string DefaultFile(const inference::ModelConfig&, const std::string&) const override { return {}; }
  Status AutoComplete(const ModelLocation&, inference::ModelConfig&) override { return OkStatus(); }
  Result<std::unique_ptr<BackendModel>> Create(const ModelLocation& location,
                                               std::shared_ptr<const inference::ModelConfig> config) override;
};

}  // namespace braid
