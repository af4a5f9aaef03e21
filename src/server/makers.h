// Makers: what makes servables of the entries of model folders and of a config.json. The server serves what it makes; `braid check` throws it
// away.
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
  // As many of users' calculators may block at once.
  static constexpr size_t kMostCalculators = 64;

  // What depends on whether it is served. Called by several threads at once.
  struct Steps {
    decltype(FolderMakers::make_model) make_model;
    decltype(ConfigMakers::load_model) load_model;
    decltype(ConfigMakers::open_library) open_library;
    // Starts the Python nodes of a graph and waits until they are initialized.
    decltype(GraphDeps::start_python) start_nodes;
    // Runs on each new ensemble, pipeline and graph before it is served.
    std::function<Status(Servable& servable)> configure;
  };
  // `options`, what `deps` refers to, and what the steps refer to outlive the makers, and these what they make.
  Makers(const ServerOptions& options, const DagDeps& deps, Steps steps)
      : options_(options), deps_(deps), steps_(std::move(steps)) {}

  // Opens the libraries of calculators, for graphs. Before the first is made. Errors: a library that cannot be used.
  Status OpenCalculators(const OpenIsolatedCalculators& open);
  const graph::CalculatorRegistry& calculators() const { return *calculators_; }

  FolderMakers ForFolders(std::vector<Backend*> backends);
  ConfigMakers ForConfig();

  // As MakeEnsemble() and MakePipeline() have `field` and `faults`.
  Result<std::shared_ptr<Servable>> Ensemble(ServableInfo info, const WhyMissing& why_missing,
                                             std::string* field = nullptr);
  Result<std::shared_ptr<Servable>> Pipeline(const OvmsPipelineConfig& config,
                                             const CustomNodeLibraries& libraries,
                                             std::vector<PipelineFault>* faults = nullptr);
  Result<std::shared_ptr<Servable>> Graph(const OvmsGraphConfig& config, std::vector<std::string>& files);

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
