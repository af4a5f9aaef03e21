// What a servable is made of, for people who look at it: the nodes and edges of an ensemble, a pipeline or a
// graph, with what each has done since the servable was loaded; and the instances that run a model. Counters
// only grow. Reading them takes no lock that a request waits for; two of them may be a request apart, but at
// each node failed <= ended <= started.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace braid {

enum class StructureNodeKind : unsigned char {
  kRequest,     // where inputs come in
  kResponse,    // where outputs leave
  kModel,       // runs another servable
  kCustomNode,  // runs a library of the user
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
  std::string name;  // as the definition names it; unique among the nodes
  // The servable, the library or the calculator that it runs; empty for request and response.
  std::string runs;
  // Of kModel: the version that the definition asks for; -1 is the highest.
  int64_t version = -1;
  // What else is said of it: "demultiply_count: 4", "gather_from_node: a", "decoupled", "SESSION:s".
  std::string note;
  uint64_t started = 0;   // executions; requests of the request, responses of the response
  uint64_t ended = 0;     // of those; the difference runs or waits now
  uint64_t failed = 0;    // of those that ended: with an error, and were not cancelled
  uint64_t total_ns = 0;  // of those that ended, from start to end
};

struct StructureEdge {
  uint32_t from = 0;  // indexes of nodes
  uint32_t to = 0;
  std::string from_port;  // the names of the tensor or stream at either end
  std::string to_port;
  uint64_t passed = 0;  // tensors (of what is gathered, its pieces) or packets
};

struct ServableStructure {
  std::vector<StructureNode> nodes;
  std::vector<StructureEdge> edges;
};

// One instance of a model: with Python a process, with OpenVINO an infer request.
struct InstanceReport {
  std::string name;
  pid_t pid = 0;  // 0: none of its own, or none now
  bool ready = true;
  std::string reason;      // why it is not
  uint64_t restarts = 0;   // since the model was loaded
  int64_t started_ms = 0;  // since 1970, of the process; 0: not known
  uint64_t executions = 0;
};

}  // namespace braid
