// LoadPlan: the versions that a load of a model will serve, and a key of each version's files, configuration
// and dependencies.
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
  // The whole folder's fingerprint from before the first read, so that later changes are detected.
  uint64_t fingerprint = 0;
  // The versions to serve. A served version with the same key stays. The key covers the files, the
  // configuration without its version policy, and the builds of the dependencies.
  std::map<int64_t, uint64_t> keys;
  // For an ensemble: the models of its steps, and the key of their builds.
  std::set<ServableUse> uses;
  uint64_t uses_key = 0;

  // Sets uses_key, and mixes it into all keys. Called once, for ensembles.
  void SetUsesKey(uint64_t key);
};

// Reads the folder and configuration for the request; `reader` has opened `source` for it. Oddities of the
// folder go to `log`. Errors: the reason why the model cannot be read.
Result<LoadPlan> MakeLoadPlan(const SourceReader& reader, const LoadRequest& request, ModelSource source,
                              Logger& log);

}  // namespace braid
