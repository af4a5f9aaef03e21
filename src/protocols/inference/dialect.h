// How the two kinds of clients are answered, where that differs: clients of OpenVINO Model Server by
// servables of a config.json and by graphs, clients of Triton by all others. The differences are data and a
// few functions of two objects. The servable decides which one holds; for what is not found, the way in which
// the server was started.
//
//   const DialectRules& rules = RulesOf(servable.info());
//   if (!name.ok()) return rules.WithDetails(Fault::kRestCouldNotParseInput, name.status());
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "base/status.h"
#include "protocols/inference/context.h"
#include "serving/api_counters.h"
#include "serving/catalog.h"
#include "serving/faults.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

class DialectRules {
  const bool ovms_;

 public:
  explicit DialectRules(Dialect dialect) : ovms_(dialect == Dialect::kOvms) {}

  // An input without data is one without elements, and bytes behind a JSON part need neither a size nor a
  // header. Else such requests are refused.
  const bool data_may_be_missing = ovms_;
  // Whether the contents of a message are checked as a whole, before those of one input.
  const bool contents_as_a_whole = ovms_;
  // Whether calls are counted at the servable, for the ovms_* metrics.
  const bool counts_calls = ovms_;
  // Whether a call with a stream ends when its first message leads to no servable.
  const bool streams_need_a_servable = ovms_;
  // Whether a version that is not there is known where its model is.
  const bool knows_all_versions = ovms_;
  // Whether what runs a servable is a client's business (ModelConfig).
  const bool tells_configuration = !ovms_;

  // Of two answers, that of this dialect.
  template <class T>
  T Choose(T triton, T ovms) const {
    return ovms_ ? std::move(ovms) : std::move(triton);
  }
  // `triton`, or the base text of `fault`.
  Status Word(Fault fault, Status triton) const { return ovms_ ? FaultError(fault) : triton; }
  // `status`; or its text as the details of `fault`, where it is an error of the client that is no fault yet.
  Status WithDetails(Fault fault, Status status) const;
  // `fault`, or what is wrong with the names, types and shapes of a request's inputs, where that is told
  // first.
  Status FirstFault(const ServableInfo& info, const InferenceRequest& request, Status fault) const;
  // How a call is counted, if it is.
  std::optional<ApiCall> Call(ApiInterface interface, ApiMethod method) const;
};

const DialectRules& RulesOf(Dialect dialect);
inline const DialectRules& RulesOf(const ServableInfo& info) { return RulesOf(info.dialect); }
inline const DialectRules& RulesOf(const Catalog& catalog) { return RulesOf(catalog.dialect()); }

// Why there is no servable for an inference request: `status`, but a name that is not known at all is looked
// for among the graphs last.
Status InferNotFound(const Status& status);

// Why ModelConfig has no answer where the configuration is not told: UNSUPPORTED.
Status NoModelConfig(const ServableInfo& info);

// Counts a call of KServe that ended here, or an inference that was refused here, where calls are counted.
void CountCall(Servable& servable, ApiInterface interface, ApiMethod method);
void CountRefused(Servable& servable, ApiInterface interface, ApiMethod method);

}  // namespace braid
