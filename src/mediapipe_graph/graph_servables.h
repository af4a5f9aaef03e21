// The services of a run: the parts of the server that a served graph's calculators use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "serving/catalog.h"
#include "serving/request.h"
#include "serving/servable_reference.h"

namespace braid {

class GraphSequences;

// The servables that a graph's nodes call, by the names in its configuration. Constant once runs begin. Each
// reference remembers its servable, so a run needs no lookup.
class GraphServables {
 public:
  // `catalog` outlives this.
  explicit GraphServables(const Catalog& catalog) : catalog_(catalog) {}

  // `version` -1 means the highest that is ready.
  const ServableReference& Add(const std::string& name, int64_t version) {
    return references_.try_emplace({name, version}, catalog_, name, version).first->second;
  }
  // Returns null if it was not added.
  const ServableReference* Find(const std::string& name, int64_t version) const {
    const auto at = references_.find({name, version});
    return at == references_.end() ? nullptr : &at->second;
  }

  std::vector<ServableUse> uses() const;
  // Returns the loaded servables that have sequences of clients.
  std::vector<std::shared_ptr<Servable>> WithSequences() const;
  // See Servable.
  bool has_sequences() const { return !WithSequences().empty(); }
  void DropSequence(const CorrelationId& id) const;
  void MarkSequence(const CorrelationId& id, std::vector<TakeBackSteps>& marks) const;

 private:
  const Catalog& catalog_;
  std::map<std::pair<std::string, int64_t>, ServableReference> references_;
};

// Checks whether nodes of graphs may call it: a stateful model must allow that. Errors: FAILED_PRECONDITION.
Status CheckMayBeAsked(const ServableInfo& info);

// The facts about the request (or the stream's first message) of a run, which also apply to the requests of
// its nodes.
struct GraphCall {
  std::string graph;
  std::string id;
  uint64_t priority = 0;
  std::shared_ptr<const CallChain> chain;  // of the request; shared with it
  std::shared_ptr<RequestTrace> trace;     // shared with the request
  // The sequences of the messages; shared by the run and its nodes. Null for none.
  std::shared_ptr<GraphSequences> sequences = {};
};

// A std::shared_ptr<const GraphServables>, shared by the runs.
inline constexpr std::string_view kGraphServablesService = "servables";
// A GraphCall.
inline constexpr std::string_view kGraphCallService = "call";

}  // namespace braid
