#include "repository/config_makers.h"

namespace braid {

ConfigMakers MakersOfServables(OpenVinoBackend& openvino, const Catalog& catalog, CustomNodeThreads& threads,
                               Timers& timers) {
  ConfigMakers makers;
  makers.load_model = [&openvino](const OvmsModelConfig& config, int64_t version, const std::string& path) {
    return openvino.Load(config, version, path);
  };
  makers.open_library = &CustomNodeLibrary::Open;
  makers.make_pipeline = [&catalog, &threads, &timers](const OvmsPipelineConfig& config,
                                                       const CustomNodeLibraries& libraries) {
    return Pipeline::Create(config, catalog, libraries, threads, timers);
  };
  return makers;
}

}  // namespace braid
