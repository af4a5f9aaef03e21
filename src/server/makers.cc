#include "server/makers.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace braid {

Status Makers::OpenCalculators(const OpenIsolatedCalculators& open) {
  BRAID_ASSIGN_OR_RETURN(calculators_, MakeCalculators(options_.calculator_libraries, open));
  return OkStatus();
}

FolderMakers Makers::ForFolders(std::vector<Backend*> backends) {
  return {.backends = std::move(backends),
          .make_model = steps_.make_model,
          .make_ensemble = [this](ServableInfo info, const WhyMissing& why_missing) {
            return Ensemble(std::move(info), why_missing);
          }};
}

ConfigMakers Makers::ForConfig() {
  return {
      .load_model = steps_.load_model,
      .make_servable =
          [this](ServableInfo info, std::unique_ptr<BackendModel> model) {
            return steps_.make_model(std::move(info), std::move(model), [](const std::string&) {});
          },
      .open_library = steps_.open_library,
      .make_pipeline = [this](const OvmsPipelineConfig& config,
                              const CustomNodeLibraries& libraries) { return Pipeline(config, libraries); },
      .make_graph =
          [this](const OvmsGraphConfig& config, const std::function<void(const std::string&)>& reads) {
            return Graph(config, reads);
          }};
}

Result<std::shared_ptr<Servable>> Makers::Configured(Result<std::shared_ptr<Servable>> made) const {
  if (made.ok()) BRAID_RETURN_IF_ERROR(steps_.configure(**made));
  return made;
}

Result<std::shared_ptr<Servable>> Makers::Ensemble(ServableInfo info, const WhyMissing& why_missing,
                                                   std::string* field) {
  return Configured(MakeEnsemble(std::move(info), deps_, why_missing, field));
}

Result<std::shared_ptr<Servable>> Makers::Pipeline(const OvmsPipelineConfig& config,
                                                   const CustomNodeLibraries& libraries,
                                                   std::vector<PipelineFault>* faults) {
  return Configured(MakePipeline(config, libraries, custom_node_threads_, deps_, faults));
}

Result<std::shared_ptr<Servable>> Makers::Graph(const OvmsGraphConfig& config,
                                                const std::function<void(const std::string&)>& reads) {
  GraphDeps graph{deps_.catalog, calculators_, deps_.timers, graph_threads_};
  graph.start_python = [this, &reads](const std::string& name, std::vector<PythonNodeSpec> nodes) {
    for (const PythonNodeSpec& node : nodes) reads(node.handler_path);
    return steps_.start_nodes(name, std::move(nodes));
  };
  graph.cores = std::max(1u, std::thread::hardware_concurrency());
  graph.no_queue = !options_.environment.graph_queues;
  BRAID_ASSIGN_OR_RETURN(std::shared_ptr<Servable> servable, GraphServable::Create(config, graph));
  return Configured(std::move(servable));
}

}  // namespace braid
