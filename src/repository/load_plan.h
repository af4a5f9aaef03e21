// LoadPlan: what a load of a model is going to serve, and of what each version of it would be made.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/log.h"
#include "base/status.h"
#include "repository/model_source.h"
#include "serving/model_control.h"
#include "serving/servable.h"

namespace braid {

struct LoadPlan {
  ModelSource source;
  // Of the whole folder, as it was before anything was read from it: what changes later is seen as a change.
  uint64_t fingerprint = 0;
  // The versions to serve. A version whose key is that of one that is served is the same and stays: it comes
  // from the same files and the same configuration (but for the version policy), and from the same builds of
  // what it uses.
  std::map<int64_t, uint64_t> keys;
  // Of an ensemble: the models of its steps, and which builds of them it is made of.
  std::set<ServableUse> uses;
  uint64_t uses_key = 0;

  // Sets uses_key, and makes it a part of all keys. Called once, for ensembles.
  void SetUsesKey(uint64_t key);
};

// Reads what the request asks for; `source` is what `reader` has opened for it. What is odd about the folder
// goes to `log`. Errors: why the model cannot be read.
Result<LoadPlan> MakeLoadPlan(const SourceReader& reader, const LoadRequest& request, ModelSource source,
                              Logger& log);

}  // namespace braid
