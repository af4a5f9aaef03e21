// Graph: nodes, the tensors between them, and what can be known of their flow before a request comes.
//
//   BRAID_ASSIGN_OR_RETURN(auto graph, Graph::Build({"IMAGE"}, {"LABEL"}, nodes));
//
// Every tensor has one producer: an input of the graph, or an output of a node. A node may have any number of
// inputs, and a tensor any number of consumers.
//
// A node that answers many times (`many`) opens a scope: what lies after it runs once for each answer, in a
// flow of its own. Scopes form a tree whose root is what runs once a request. A node lives in the deepest
// scope among its inputs; tensors of the scopes around it are the same for all its flows. So a join of two
// branches is defined when one branch's scope lies around the other's, and refused else.
//
// Immutable; shared by all sessions that run on it, on any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace braid {

// One input or output of a node: `name` as the node knows it, `tensor` as the graph does.
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
};

class Graph {
 public:
  static constexpr uint32_t kRoot = 0;  // of scopes
  static constexpr uint32_t kNone = UINT32_MAX;

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
    uint32_t scope = kRoot;  // in which it runs
    uint32_t place = 0;      // among the nodes of that scope
    uint32_t opens = kNone;  // the scope of its answers, when there can be many
  };
  struct Tensor {
    std::string name;
    uint32_t scope = kRoot;
    uint32_t place = 0;  // among the tensors of that scope
    // Inputs of nodes that take it; a node that takes it twice stands here twice.
    std::vector<uint32_t> consumers;
    // How many of them live in its own scope; whether others live in scopes within.
    uint32_t near_consumers = 0;
    bool far_consumers = false;
  };
  struct Scope {
    uint32_t parent = kNone;
    uint32_t depth = 0;
    uint32_t opener = kNone;  // the node whose answers open flows of it
    std::vector<uint32_t> nodes;
    uint32_t tensors = 0;
  };

  // Errors: INVALID_ARGUMENT for a tensor with two producers or none, for nodes that wait for each other, and
  // for a join of scopes of which neither lies around the other.
  static Result<std::shared_ptr<const Graph>> Build(const std::vector<std::string>& inputs,
                                                    const std::vector<std::string>& outputs,
                                                    const std::vector<NodeSpec>& nodes);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<Scope>& scopes() const { return scopes_; }
  // Tensors, in the order given to Build().
  const std::vector<uint32_t>& inputs() const { return inputs_; }
  const std::vector<uint32_t>& outputs() const { return outputs_; }

  // Whether `scope` is `around` or lies within it.
  bool Within(uint32_t scope, uint32_t around) const;

 private:
  class Builder;
  Graph() = default;

  std::vector<Node> nodes_;
  std::vector<Tensor> tensors_;
  std::vector<Scope> scopes_;
  std::vector<uint32_t> inputs_;
  std::vector<uint32_t> outputs_;
};

}  // namespace braid
