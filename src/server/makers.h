// Makers: the factory of servables from entries of model folders and of a config.json. The server serves
// them; `braid check` discards them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/elastic_threads.h"
#include "base/status.h"
#include "graph/registry.h"
#include "mediapipe_graph/calculator_library.h"
#include "mediapipe_graph/graph_servable.h"
#include "pipeline/custom_node_threads.h"
#include "pipeline/dag_servable.h"
#include "pipeline/ensemble.h"
#include "pipeline/pipeline.h"
#include "repository/manager_options.h"
#include "server/options.h"

namespace braid {

class Makers {
 public:
  // Limit on users' calculators that block at the same time.
  static constexpr size_t kMostCalculators = 64;

  // The steps that differ between serving and checking. Called by several threads at once.
  struct Steps {
    decltype(FolderMakers::make_model) make_model;
    decltype(ConfigMakers::load_model) load_model;
    decltype(ConfigMakers::open_library) open_library;
    // Starts the Python nodes of a graph and waits until they are initialized.
    decltype(GraphDeps::start_python) start_nodes;
    // Runs for each new ensemble, pipeline and graph before it is served.
    std::function<Status(Servable& servable)> configure;
  };
  // `options` and the objects behind `deps` and `steps` outlive the makers. The makers outlive their
  // servables.
  Makers(const ServerOptions& options, const DagDeps& deps, Steps steps)
      : options_(options), deps_(deps), steps_(std::move(steps)) {}

  // Opens the libraries of calculators, for graphs. Called before the first graph is made. Errors: an
  // unusable library.
  Status OpenCalculators(const OpenIsolatedCalculators& open);
  const graph::CalculatorRegistry& calculators() const { return *calculators_; }

  FolderMakers ForFolders(std::vector<Backend*> backends);
  ConfigMakers ForConfig();

  // `field` and `faults` are as for MakeEnsemble() and MakePipeline().
  Result<std::shared_ptr<Servable>> Ensemble(ServableInfo info, const WhyMissing& why_missing,
                                             std::string* field = nullptr);
  Result<std::shared_ptr<Servable>> Pipeline(const OvmsPipelineConfig& config,
                                             const CustomNodeLibraries& libraries,
                                             std::vector<PipelineFault>* faults = nullptr);
  Result<std::shared_ptr<Servable>> Graph(const OvmsGraphConfig& config,
                                          const std::function<void(const std::string& file)>& reads);

 private:
  Result<std::shared_ptr<Servable>> Configured(Result<std::shared_ptr<Servable>> made) const;

  const ServerOptions& options_;
  const DagDeps deps_;
  const Steps steps_;
  CustomNodeThreads custom_node_threads_;
  std::shared_ptr<const graph::CalculatorRegistry> calculators_;  // shared with the graphs
  ElasticThreads graph_threads_{{.name = "brd-graph", .most = kMostCalculators}};
};

}  // namespace braid
