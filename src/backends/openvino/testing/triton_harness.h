// A fixture for models of a Triton repository.
#pragma once

#include <memory>
#include <string>

#include "backends/openvino/testing/harness.h"
#include "config/folder.h"
#include "config/model_config.h"
#include "config/servable_info.h"

namespace braid {

class TritonHarness : public OpenVinoHarness {
 protected:
  ModelLocation Location(const inference::ModelConfig& config) {
    ModelLocation location;
    location.model_path = folder_->path() + "/" + config.name();
    location.version_path = location.model_path + "/1";
    const std::string& file = config.default_model_filename();
    location.model_file = location.version_path + "/" +
                          (file.empty() ? backend_->DefaultFile(config, location.version_path) : file);
    return location;
  }
  // Loads and starts a model as the repository does.
  Result<std::shared_ptr<InstancePool>> Serve(const std::string& text, bool complete = true) {
    auto config = std::make_shared<inference::ModelConfig>();
    BRAID_ASSIGN_OR_RETURN(*config, ParseConfigText("name: 'm' " + text, "config.pbtxt"));
    const ModelLocation location = Location(*config);
    if (complete) BRAID_RETURN_IF_ERROR(backend_->AutoComplete(location, *config));
    NormalizeConfig(*config);
    BRAID_RETURN_IF_ERROR(ValidateConfig(*config));
    BRAID_ASSIGN_OR_RETURN(Folder folder, Folder::Open(location.model_path));
    BRAID_ASSIGN_OR_RETURN(ServableInfo info, MakeServableInfo(config, 1, folder));
    BRAID_ASSIGN_OR_RETURN(auto model, backend_->Create(location, config));
    return StartModel(std::move(info), std::move(model), timers_, log_, [](const std::string&) {});
  }
  std::string Refusal(const std::string& text, bool complete = true) {
    auto model = Serve(text, complete);
    if (!model.ok()) return model.status().message();
    Stop(*model);
    return "no error";
  }
};

}  // namespace braid
