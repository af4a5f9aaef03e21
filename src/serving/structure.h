// ServableStructure: the nodes and edges of an ensemble, a pipeline or a graph, and the instances of a model,
// for people who inspect a server. Counters start at the load and only grow. Reading them takes no lock that
// a request waits for. Two counters may differ by one request, but at each node failed <= ended <= started.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace braid {

enum class StructureNodeKind : unsigned char {
  kRequest,     // source of the inputs
  kResponse,    // sink of the outputs
  kModel,       // runs another servable
  kCustomNode,  // runs a user's library
  kCalculator,  // runs a calculator of a graph
  kPython,      // runs a Python node of a graph
};
// "request", "response", "model", "custom_node", "calculator", "python".
constexpr const char* StructureNodeKindName(StructureNodeKind kind) {
  switch (kind) {
    case StructureNodeKind::kRequest:
      return "request";
    case StructureNodeKind::kResponse:
      return "response";
    case StructureNodeKind::kModel:
      return "model";
    case StructureNodeKind::kCustomNode:
      return "custom_node";
    case StructureNodeKind::kCalculator:
      return "calculator";
    case StructureNodeKind::kPython:
      return "python";
  }
  return "";
}

struct StructureNode {
  StructureNodeKind kind = StructureNodeKind::kModel;
  std::string name;  // as in the definition; unique among the nodes
  // The servable, library or calculator that it runs; empty for request and response.
  std::string runs;
  // For kModel: the version in the definition; -1 is the highest.
  int64_t version = -1;
  // Further details: "demultiply_count: 4", "gather_from_node: a", "decoupled", "SESSION:s".
  std::string note;
  uint64_t started = 0;   // executions; for kRequest requests, for kResponse responses
  uint64_t ended = 0;     // of those; the others are in flight
  uint64_t failed = 0;    // of those that ended: with an error other than a cancellation
  uint64_t total_ns = 0;  // of those that ended, from start to end
};

struct StructureEdge {
  uint32_t from = 0;  // indexes of nodes
  uint32_t to = 0;
  std::string from_port;  // the names of the tensor or stream at each end
  std::string to_port;
  uint64_t passed = 0;  // tensors (for a gather, its pieces) or packets
};

struct ServableStructure {
  std::vector<StructureNode> nodes;
  std::vector<StructureEdge> edges;
};

// One instance of a model: a process for Python, an infer request for OpenVINO.
struct InstanceReport {
  std::string name;
  pid_t pid = 0;  // 0: no separate process, or none now
  bool ready = true;
  std::string reason;      // why it is not ready
  uint64_t restarts = 0;   // since the model was loaded
  int64_t started_ms = 0;  // start of the process, since 1970; 0: unknown
  uint64_t executions = 0;
};

}  // namespace braid
