// What a ConfigRepository makes servables with.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/openvino/openvino_backend.h"
#include "base/status.h"
#include "config/ovms_config.h"
#include "pipeline/pipeline.h"
#include "serving/servable.h"

namespace braid {

// Called by several threads at once; each may block for long.
struct ConfigMakers {
  // See OpenVinoBackend::Load().
  std::function<Result<OpenVinoBackend::LoadedModel>(const OvmsModelConfig& config, int64_t version,
                                                     const std::string& version_path)>
      load_model;
  // Makes the servable of a version and waits until it can serve; ScheduledModel::Start in the server.
  std::function<Result<std::shared_ptr<Servable>>(ServableInfo info, std::unique_ptr<BackendModel> model)>
      make_servable;
  // See CustomNodeLibrary::Open().
  std::function<Result<std::shared_ptr<const CustomNodeLibrary>>(const std::string& name,
                                                                 const std::string& path)>
      open_library;
  // See Pipeline::Create().
  std::function<Result<std::shared_ptr<Pipeline>>(const OvmsPipelineConfig& config,
                                                  const CustomNodeLibraries& libraries)>
      make_pipeline;
  // Makes the servable of a graph and waits until it can serve. `files` gets what it was made of beside its
  // graph.pbtxt, also when it fails.
  std::function<Result<std::shared_ptr<Servable>>(const OvmsGraphConfig& config,
                                                  std::vector<std::string>& files)>
      make_graph;
};

// Those that do the real thing, but for make_servable and make_graph, which are the server's. All outlive
// what they make.
ConfigMakers MakersOfServables(OpenVinoBackend& openvino, const Catalog& catalog, CustomNodeThreads& threads,
                               Timers& timers);

}  // namespace braid
