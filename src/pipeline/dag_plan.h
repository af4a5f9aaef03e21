// DagPlan: the plan of a DagServable: its DAG, a step for each node, and its error texts. Plain data;
// ensemble.cc makes it for ensembles, pipeline.cc for pipelines. The servable shares it with its sessions,
// which may outlive the servable.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "pipeline/convert_precision.h"
#include "pipeline/custom_node_library.h"
#include "pipeline/custom_node_threads.h"
#include "pipeline/dag.h"
#include "pipeline/dag_structure.h"
#include "serving/reshape.h"
#include "serving/servable_reference.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace braid {

// A change of shape between a model with a batch dimension and one without: a tensor that fits `from` becomes
// `to`. They differ by a leading 1.
struct BatchChange {
  std::string tensor;  // its consumer's name for it
  Shape from;
  Shape to;
};

inline void ChangeBatches(const std::vector<BatchChange>& changes, std::vector<Tensor>& tensors) {
  for (const BatchChange& change : changes) {
    for (Tensor& tensor : tensors) {
      if (tensor.name == change.tensor) Reshape(change.from, change.to, tensor.shape);
    }
  }
}

// The step behind one node: a servable or the code of a custom node. A session looks up the servable's
// version when it begins.
struct DagStep {
  std::unique_ptr<const ServableReference> servable;
  // Set if `servable` is null.
  std::shared_ptr<const CustomNodeCode> code = {};  // shared with the maker of the plan
  // The outputs to request from the servable; empty requests all.
  std::vector<std::string> outputs = {};
  // Inputs to convert before the step gets them.
  Precisions precisions = {};
  // Of its inputs.
  std::vector<BatchChange> batch_changes = {};
};

struct DagPlan {
  std::unique_ptr<const Dag> dag;
  std::vector<DagStep> steps;  // by node
  std::unique_ptr<DagStructure> structure;
  // Maximum number of concurrent runs of one node; 0 means no limit. Further runs wait in order.
  uint32_t max_runs_per_node = 0;
  std::vector<BatchChange> batch_changes;  // of the outputs
  CustomNodeThreads* threads = nullptr;    // of steps that are code; outlives the plan

  // The parts of a reason for not being ready: "ensemble 'e' depends on '" MODEL "' which is not ready: "
  // REASON.
  std::string needs;
  std::string no_version;
  std::string not_ready;
  // Makes the error of a request if no version of a step is loaded; `text` is the reason.
  Status (*unavailable)(std::string text) = nullptr;
  // Makes the error of a request from the error of a node, or of the session itself (Dag::kNone).
  std::function<Status(Status status, uint32_t node)> fault;
  // Makes the error of a request when a node has answered without an output that the DAG knows. Null: the
  // session continues, and nodes that need the output do not run.
  std::function<Status(uint32_t node, const std::string& output)> missing_output;
  // Finishes the outputs of the single response of a servable that is not decoupled; may be null.
  Status (*finish_outputs)(std::vector<Tensor>& outputs) = nullptr;

  std::string NoVersion(const std::string& model) const { return needs + model + no_version; }
  std::string NotReady(const std::string& model, const std::string& reason) const {
    return needs + model + not_ready + reason;
  }
};

}  // namespace braid
