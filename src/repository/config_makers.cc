#include "repository/config_makers.h"

namespace braid {

ConfigMakers MakersOfServables(OpenVinoBackend& openvino, const Catalog& catalog,
                               CustomNodeThreads& threads) {
  ConfigMakers makers;
  makers.load_model = [&openvino](const OvmsModelConfig& config, int64_t version, const std::string& path) {
    return openvino.Load(config, version, path);
  };
  makers.open_library = &CustomNodeLibrary::Open;
  makers.make_pipeline = [&catalog, &threads](const OvmsPipelineConfig& config,
                                              const CustomNodeLibraries& libraries) {
    return Pipeline::Create(config, catalog, libraries, threads);
  };
  return makers;
}

}  // namespace braid
