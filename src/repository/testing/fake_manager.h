// What tests of the manager share: makers of fakes, and the text of what the catalog shows.
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

// Makers of fakes for model folders. All outlive what is made with them.
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

// What decides whether a server goes on that is strict about its model folders.
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
