// What the calculators of a served graph find of the server: the services of its runs.
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

// The servables that a graph's nodes ask, by what they are called in its configuration. Constant once runs
// begin; each reference remembers what it found, so a run looks nothing up.
class GraphServables {
 public:
  // `catalog` outlives this.
  explicit GraphServables(const Catalog& catalog) : catalog_(catalog) {}

  // A `version` of -1 is the highest that is ready.
  const ServableReference& Add(const std::string& name, int64_t version) {
    return references_.try_emplace({name, version}, catalog_, name, version).first->second;
  }
  // Null when it was not added.
  const ServableReference* Find(const std::string& name, int64_t version) const {
    const auto at = references_.find({name, version});
    return at == references_.end() ? nullptr : &at->second;
  }

  std::vector<ServableUse> uses() const;
  // Those that are there now and have sequences of clients.
  std::vector<std::shared_ptr<Servable>> WithSequences() const;
  // See Servable.
  bool has_sequences() const { return !WithSequences().empty(); }
  void DropSequence(const CorrelationId& id) const;
  void MarkSequence(const CorrelationId& id, std::vector<TakeBackSteps>& marks) const;

 private:
  const Catalog& catalog_;
  std::map<std::pair<std::string, int64_t>, ServableReference> references_;
};

// Whether nodes of graphs may ask it: a stateful model has to allow that. Errors: FAILED_PRECONDITION.
Status CheckMayBeAsked(const ServableInfo& info);

// What the request (or the first message of the stream) says that a run works for, and that holds for what
// its nodes ask, too.
struct GraphCall {
  std::string graph;
  std::string id;
  uint64_t priority = 0;
  std::shared_ptr<const CallChain> chain;  // of the request; shared with it
  std::shared_ptr<RequestTrace> trace;     // shared with the request
  // What each message says of its sequence; shared by the run and its nodes. Null for none.
  std::shared_ptr<GraphSequences> sequences = {};
};

// A std::shared_ptr<const GraphServables>, shared by the runs.
inline constexpr std::string_view kGraphServablesService = "servables";
// A GraphCall.
inline constexpr std::string_view kGraphCallService = "call";

}  // namespace braid
