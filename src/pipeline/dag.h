// Dag: nodes, the tensors between them, and what can be known of their flow before a request comes.
//
//   BRAID_ASSIGN_OR_RETURN(auto dag, Dag::Build({"IMAGE"}, {"LABEL"}, nodes));
//
// Every tensor has one producer: an input of the DAG, or an output of a node. A node may have any number of
// inputs, and a tensor any number of consumers.
//
// A node that answers many times (`many`) opens a scope: what lies after it runs once for each answer, in a
// flow of its own. Scopes form a tree whose root is what runs once a request. A node lives in the deepest
// scope among its inputs; tensors of the scopes around it are the same for all its flows. So a join of two
// branches is defined when one branch's scope lies around the other's, and refused else.
//
// A demultiplexer (`demultiply`) answers once, and its answer is split into shards along dimension 0 of every
// output; each shard is a flow of the scope that the node opens. The DAG's inputs may be split the same way.
// Since the shards are all known at once, they can be gathered: a node behind the scope (`gather_from`) waits
// for the tensors of all its flows and takes them as one, stacked in the order of the shards.
//
// Immutable; shared by all sessions that run on it, on any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace braid {

// One input or output of a node: `name` as the node knows it, `tensor` as the DAG does.
struct PortSpec {
  std::string name;
  std::string tensor;
  // Of an input: the node also runs without it.
  bool optional = false;
};

struct NodeSpec {
  // As it stands in error texts.
  std::string name;
  std::vector<PortSpec> inputs;
  std::vector<PortSpec> outputs;
  // It answers a run any number of times, not just once.
  bool many = false;
  // Into how many shards its answer is split: kWhole, kDynamic, or a number above 0.
  int32_t demultiply = 0;
  // The index of the demultiplexer whose shards all its inputs gather, or kRequest.
  uint32_t gather_from = UINT32_MAX;
};

// All that a DAG is built from.
struct DagSpec {
  std::vector<std::string> inputs;
  // `name` is how the response names `tensor`.
  std::vector<PortSpec> outputs;
  std::vector<NodeSpec> nodes;
  // Of the inputs; as NodeSpec's.
  int32_t demultiply = 0;
  // Outputs inside scopes are stacked, all dimensions in front, the outermost scope's first. Else there is a
  // response for each flow.
  bool gather_outputs = false;
};

class Dag {
 public:
  static constexpr uint32_t kRoot = 0;  // of scopes
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kRequest = UINT32_MAX - 1;  // the DAG's inputs, as what is split
  static constexpr int32_t kWhole = 0;
  static constexpr int32_t kDynamic = -1;

  struct Port {
    std::string name;
    uint32_t tensor = 0;
    bool optional = false;
  };
  struct Node {
    std::string name;
    std::vector<Port> inputs;
    std::vector<Port> outputs;
    bool many = false;
    int32_t demultiply = kWhole;
    uint32_t scope = kRoot;  // in which it runs
    uint32_t index = 0;      // among the nodes of that scope
    uint32_t opens = kNone;  // the scope of its answers, when there can be many
  };
  struct Tensor {
    std::string name;
    uint32_t scope = kRoot;
    uint32_t slot = 0;  // among the tensors of that scope
    // Inputs of nodes that take it; a node that takes it twice stands here twice.
    std::vector<uint32_t> consumers;
    // How many of them live in its own scope; whether others live in scopes within.
    uint32_t near_consumers = 0;
    bool far_consumers = false;
    std::vector<uint32_t> gathers;  // that stack it
  };
  // Makes one tensor of what all flows of a scope know one as.
  struct Gather {
    uint32_t from = 0;  // a tensor inside
    uint32_t to = 0;    // the tensor outside
    // Its index among the collections of each scope on the way, the one of `to` first.
    std::vector<uint32_t> indexes;
  };
  struct Collection {
    uint32_t gather = 0;
    uint32_t inner = 0;  // the scope next on the way in
  };
  struct Scope {
    uint32_t parent = kNone;
    uint32_t depth = 0;
    // The node whose answers open flows of it, kRequest for the shards of the inputs; kNone of the root.
    uint32_t opener = kNone;
    std::vector<uint32_t> nodes;
    uint32_t tensors = 0;
    std::vector<Collection> collections;  // what flows of it collect of the flows within
  };

  // Errors: INVALID_ARGUMENT for a tensor with two producers or none, for nodes that wait for each other, for
  // a join of scopes of which neither lies around the other, and for a gather of what is in another scope.
  static Result<std::unique_ptr<const Dag>> Build(const DagSpec& spec);
  // The same for outputs that bear the names of their tensors, of which nothing is split.
  static Result<std::unique_ptr<const Dag>> Build(const std::vector<std::string>& inputs,
                                                  const std::vector<std::string>& outputs,
                                                  const std::vector<NodeSpec>& nodes);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<Scope>& scopes() const { return scopes_; }
  const std::vector<Gather>& gathers() const { return gathers_; }
  // Tensors, in the order given to Build().
  const std::vector<uint32_t>& inputs() const { return inputs_; }
  const std::vector<uint32_t>& outputs() const { return outputs_; }
  // How the response names them.
  const std::vector<std::string>& output_names() const { return output_names_; }
  int32_t demultiply() const { return demultiply_; }
  // The scope in which the inputs are.
  uint32_t input_scope() const { return input_scope_; }

  // Whether `scope` is `around` or lies within it.
  bool Within(uint32_t scope, uint32_t around) const;

 private:
  class Builder;
  Dag() = default;

  std::vector<Node> nodes_;
  std::vector<Tensor> tensors_;
  std::vector<Scope> scopes_;
  std::vector<Gather> gathers_;
  std::vector<uint32_t> inputs_;
  std::vector<uint32_t> outputs_;
  std::vector<std::string> output_names_;
  int32_t demultiply_ = kWhole;
  uint32_t input_scope_ = kRoot;
};

}  // namespace braid
