// Dag: an immutable graph of nodes and of the tensors between them. It holds everything about their flow that
// is known before a request arrives.
//
//   BRAID_ASSIGN_OR_RETURN(auto dag, Dag::Build({"IMAGE"}, {"LABEL"}, nodes));
//
// Every tensor has one producer: an input of the DAG, or an output of a node. A node may have any number of
// inputs, and a tensor any number of consumers.
//
// A node that answers many times (`many`) opens a scope: the nodes after it run once for each answer, in a
// separate flow. Scopes form a tree; the nodes of its root run once per request. A node lives in the deepest
// scope among its inputs. Tensors of the scopes around it are the same for all its flows. A join of two
// branches is therefore defined only if one branch's scope lies around the other's; other joins are refused.
//
// A demultiplexer (`demultiply`) answers once, and its answer is split into shards along dimension 0 of every
// output. Each shard is a flow of the scope that the node opens. The DAG's inputs may be split the same way.
// All shards are known at once, so they can be gathered: a node behind the scope (`gather_from`) waits for
// the tensors of all its flows. It takes them as one tensor, stacked in the order of the shards.
//
// Shared by all sessions that run on it, on any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace braid {

// One input or output of a node. The node calls it `name`, the DAG calls it `tensor`.
struct PortSpec {
  std::string name;
  std::string tensor;
  // Of an input: the node also runs without it.
  bool optional = false;
};

struct NodeSpec {
  // Its name in error texts.
  std::string name;
  std::vector<PortSpec> inputs;
  std::vector<PortSpec> outputs;
  // It answers a run any number of times, not just once.
  bool many = false;
  // The number of shards of its answer: kWhole, kDynamic, or a number above 0.
  int32_t demultiply = 0;
  // The demultiplexer whose shards all its inputs gather: its index, kRequest, or kNone.
  uint32_t gather_from = UINT32_MAX;
};

// The description from which a DAG is built.
struct DagSpec {
  std::vector<std::string> inputs;
  // `name` is the response's name for `tensor`.
  std::vector<PortSpec> outputs;
  std::vector<NodeSpec> nodes;
  // Of the inputs, as in NodeSpec.
  int32_t demultiply = 0;
  // Outputs inside scopes are stacked; each scope adds a dimension in front, the outermost scope first.
  // Otherwise there is a response for each flow.
  bool gather_outputs = false;
};

class Dag {
 public:
  static constexpr uint32_t kRoot = 0;  // the outermost scope
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kRequest = UINT32_MAX - 1;  // stands for the request, whose inputs are split
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
    uint32_t scope = kRoot;  // the scope in which it runs
    uint32_t index = 0;      // among the nodes of that scope
    uint32_t opens = kNone;  // the scope of its answers or shards, if any
  };
  struct Tensor {
    std::string name;
    uint32_t scope = kRoot;
    uint32_t slot = 0;  // among the tensors of that scope
    // The nodes that take it; a node that takes it twice is listed twice.
    std::vector<uint32_t> consumers;
    // The number of consumers in its scope, and whether there are others in inner scopes.
    uint32_t near_consumers = 0;
    bool far_consumers = false;
    std::vector<uint32_t> gathers;  // that stack it
  };
  // Stacks the tensors that all flows of a scope have for one tensor.
  struct Gather {
    uint32_t from = 0;  // a tensor inside
    uint32_t to = 0;    // the tensor outside
    // Its index among the collections of each scope on the way inwards; begins with the scope of `to`.
    std::vector<uint32_t> indexes;
  };
  struct Collection {
    uint32_t gather = 0;
    uint32_t inner = 0;  // the next scope on the way inwards
  };
  struct Scope {
    uint32_t parent = kNone;
    uint32_t depth = 0;
    // The node whose answers open flows of it; kRequest for shards of the inputs, kNone for the root.
    uint32_t opener = kNone;
    std::vector<uint32_t> nodes;
    uint32_t tensors = 0;
    std::vector<Collection> collections;  // tensors that its flows collect from inner flows
  };

  // Errors: INVALID_ARGUMENT for a tensor with two producers or none, for nodes that wait for each other, and
  // for a gather from another scope. Also for a join of scopes if neither lies around the other.
  static Result<std::unique_ptr<const Dag>> Build(const DagSpec& spec);
  // Builds a DAG whose outputs have the names of their tensors and which splits nothing.
  static Result<std::unique_ptr<const Dag>> Build(const std::vector<std::string>& inputs,
                                                  const std::vector<std::string>& outputs,
                                                  const std::vector<NodeSpec>& nodes);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<Scope>& scopes() const { return scopes_; }
  const std::vector<Gather>& gathers() const { return gathers_; }
  // Indexes of tensors, in the order given to Build().
  const std::vector<uint32_t>& inputs() const { return inputs_; }
  const std::vector<uint32_t>& outputs() const { return outputs_; }
  // The response's names for the outputs.
  const std::vector<std::string>& output_names() const { return output_names_; }
  int32_t demultiply() const { return demultiply_; }
  // The scope of the inputs.
  uint32_t input_scope() const { return input_scope_; }

  // Returns whether `scope` is `around` or lies within it.
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
