// Shared parts of the manager's tests: fake makers, and the catalog's index as text.
#pragma once

#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "repository/manager.h"
#include "repository/testing/fake_backend.h"
#include "serving/catalog.h"

namespace braid::testing {

// Fake makers for model folders. The arguments outlive the servables.
inline FolderMakers FakeFolderMakers(Catalog& catalog, FakeBackend& backend, FakeFactory& factory) {
  return {.backends = {&backend},
          .make_model =
              [&factory](ServableInfo info, std::unique_ptr<BackendModel> model,
                         const FakeFactory::Progress& progress) {
                return factory(std::move(info), std::move(model), progress);
              },
          .make_ensemble =
              [&factory, &catalog](ServableInfo info,
                                   const std::function<std::string(const std::string&)>& why_missing) {
                return factory.MakeEnsemble(std::move(info), catalog, why_missing);
              }};
}

// Returns Start()'s result under strict readiness: a failed load of a model folder is an error.
inline Status StartStrictly(Manager& manager) {
  Status loaded;
  BRAID_RETURN_IF_ERROR(manager.Start(loaded));
  return loaded;
}

// "a:1 READY, a:2 UNAVAILABLE unloaded, b".
inline std::string IndexText(const Catalog& catalog) {
  std::ostringstream text;
  for (const IndexEntry& entry : catalog.Index(false)) {
    text << (text.tellp() > 0 ? ", " : "") << entry.name;
    if (!entry.version) continue;
    text << ':' << *entry.version << ' ' << VersionStateName(entry.state);
    if (!entry.reason.empty()) text << ' ' << entry.reason;
  }
  return text.str();
}

}  // namespace braid::testing
