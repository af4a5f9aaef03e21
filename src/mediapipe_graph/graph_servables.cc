#include "mediapipe_graph/graph_servables.h"

#include "serving/servable.h"

namespace braid {
namespace {

// Limits the depth of nested graphs: a servable of a graph may be a graph, and so on in a cycle. Deeper
// servables are ignored.
class Nesting {
 public:
  Nesting() { ++depth_; }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  static bool too_deep() { return depth_ > kDeepest; }

 private:
  static constexpr int kDeepest = 4;
  static thread_local int depth_;
};

thread_local int Nesting::depth_ = 0;

}  // namespace

std::vector<ServableUse> GraphServables::uses() const {
  std::vector<ServableUse> uses;
  for (const auto& [key, reference] : references_) uses.push_back({key.first, key.second});
  return uses;
}

std::vector<std::shared_ptr<Servable>> GraphServables::WithSequences() const {
  std::vector<std::shared_ptr<Servable>> found;
  const Nesting nesting;
  if (Nesting::too_deep()) return found;
  for (const auto& [name, reference] : references_) {
    const auto servable = reference.Get();
    if (servable.ok() && (*servable)->has_sequences()) found.push_back(*servable);
  }
  return found;
}

void GraphServables::DropSequence(const CorrelationId& id) const {
  const Nesting nesting;
  for (const auto& servable : WithSequences()) servable->DropSequence(id);
}

void GraphServables::MarkSequence(const CorrelationId& id, std::vector<TakeBackSteps>& marks) const {
  const Nesting nesting;
  for (const auto& servable : WithSequences()) servable->MarkSequence(id, marks);
}

Status CheckMayBeAsked(const ServableInfo& info) {
  if (!info.stateful || info.stateful->allow_in_pipelines) return OkStatus();
  return FailedPreconditionError(std::string("'").append(info.name).append(
      "' is a stateful model, which sessions of graphs cannot call "
      "(\"allow_in_pipelines\": true in the model's entry allows it)"));
}

}  // namespace braid
