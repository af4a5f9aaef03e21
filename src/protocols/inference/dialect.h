// DialectRules: the differences between responses to the two kinds of clients. Servables of a config.json and
// graphs have clients of OpenVINO Model Server; all others have clients of Triton. Each kind has one object
// of rules, with data and a few functions. The servable decides which rules apply. If there is no servable,
// the server's command line decides.
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

  // Whether an input may have no data (it then has no elements), and bytes after a JSON part need neither a
  // size nor a header. Otherwise such requests are refused.
  const bool data_may_be_missing = ovms_;
  // Whether the contents of a message are checked as a whole, before those of single inputs.
  const bool contents_as_a_whole = ovms_;
  // Whether the servable counts its calls, for the ovms_* metrics.
  const bool counts_calls = ovms_;
  // Whether a streaming call ends if its first message names no servable.
  const bool streams_need_a_servable = ovms_;
  // Whether a version that is not loaded is known if its model is.
  const bool knows_all_versions = ovms_;
  // Whether clients may read the configuration of a servable (ModelConfig).
  const bool tells_configuration = !ovms_;

  // Returns this dialect's response.
  template <class T>
  T Choose(T triton, T ovms) const {
    return ovms_ ? std::move(ovms) : std::move(triton);
  }
  // Returns `triton`, or the base text of `fault`.
  Status Word(Fault fault, Status triton) const { return ovms_ ? FaultError(fault) : triton; }
  // Returns `status`. If it is a client's error without a fault, returns `fault` with the text of `status` as
  // its details.
  Status WithDetails(Fault fault, Status status) const;
  // Returns `fault`, unless the dialect first reports an error in the names, types and shapes of a request's
  // inputs.
  Status FirstFault(const ServableInfo& info, const InferenceRequest& request, Status fault) const;
  // Returns the kind of a call that is counted; nullopt if calls are not.
  std::optional<ApiCall> Call(ApiInterface interface, ApiMethod method) const;
};

const DialectRules& RulesOf(Dialect dialect);
inline const DialectRules& RulesOf(const ServableInfo& info) { return RulesOf(info.dialect); }
inline const DialectRules& RulesOf(const Catalog& catalog) { return RulesOf(catalog.dialect()); }

// Returns the error of an inference request without a servable. Usually `status`; but an unknown name counts
// as that of a graph, because graphs are searched last.
Status InferNotFound(const Status& status);

// The error of ModelConfig for servables without a model configuration: UNSUPPORTED.
Status NoModelConfig(const ServableInfo& info);

// Count a KServe call that ended in the protocol, or an inference that the protocol refused, if calls are
// counted.
void CountCall(Servable& servable, ApiInterface interface, ApiMethod method);
void CountRefused(Servable& servable, ApiInterface interface, ApiMethod method);

}  // namespace braid
