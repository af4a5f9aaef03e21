// DagPlan: what a DagServable runs: its DAG, a step behind each node, and its own words for what goes wrong.
// Plain data, made for ensembles by ensemble.cc and for pipelines by pipeline.cc. The servable shares it with
// its sessions, which may outlive it.
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

// A tensor between what has a batch dimension and what has none: one that fits `from` becomes `to`. They differ by a
// leading 1.
struct BatchChange {
  std::string tensor;  // as its taker names it
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

// What does the work of one node: a servable, of the version that is the right one when a session begins, or
// the code of a custom node.
struct DagStep {
  std::unique_ptr<const ServableReference> servable;
  // Where there is no servable.
  std::shared_ptr<const CustomNodeCode> code = {};  // shared with the maker of the plan
  // Those that are asked of the servable; none: all that it has.
  std::vector<std::string> outputs = {};
  // Inputs that are converted before the step gets them.
  Precisions precisions = {};
  // Of its inputs.
  std::vector<BatchChange> batch_changes = {};
};

struct DagPlan {
  std::unique_ptr<const Dag> dag;
  std::vector<DagStep> steps;  // by node
  std::unique_ptr<DagStructure> structure;
  // Runs of one node at the same time, 0 for any number. Further ones wait in order.
  uint32_t max_runs_per_node = 0;
  std::vector<BatchChange> batch_changes;  // of the outputs
  CustomNodeThreads* threads = nullptr;    // of steps that are code; outlives the plan

  // Why it is not ready: "ensemble 'e' depends on '" MODEL "' which is not ready: " REASON.
  std::string needs;
  std::string no_version;
  std::string not_ready;
  // How a request ends for which a step has no version, with that text.
  Status (*unavailable)(std::string text) = nullptr;
  // How it ends with the error of a node, or of the session's own (Dag::kNone).
  std::function<Status(Status status, uint32_t node)> fault;
  // The same with a node that has answered without one of the outputs that the DAG knows. Null: the session
  // goes on, and nodes that need the output do not run.
  std::function<Status(uint32_t node, const std::string& output)> missing_output;
  // The last touch to the outputs of the one response of a servable that is not decoupled; may be null.
  Status (*finish_outputs)(std::vector<Tensor>& outputs) = nullptr;

  std::string NoVersion(const std::string& model) const { return needs + model + no_version; }
  std::string NotReady(const std::string& model, const std::string& reason) const {
    return needs + model + not_ready + reason;
  }
};

}  // namespace braid
