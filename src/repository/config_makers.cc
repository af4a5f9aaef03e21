#include "repository/config_makers.h"

#include <utility>

#include "repository/config_repository.h"

namespace braid {

ConfigRepository::ConfigRepository(ConfigRepositoryOptions options, Catalog& catalog,
                                   OpenVinoBackend& openvino, CustomNodeThreads& custom_node_threads,
                                   ServableFactory factory, Logger& log)
    : ConfigRepository(
          std::move(options), catalog,
          ConfigMakers{[&openvino](const OvmsModelConfig& config, int64_t version, const std::string& path) {
                         return openvino.Load(config, version, path);
                       },
                       std::move(factory), &CustomNodeLibrary::Open,
                       [&catalog, &custom_node_threads](const OvmsPipelineConfig& config,
                                                        const CustomNodeLibraries& libraries) {
                         return Pipeline::Create(config, catalog, libraries, custom_node_threads);
                       }},
          log) {}

}  // namespace braid
