// What tests of model repositories share: a repository of fakes, and the text of what the catalog shows.
#pragma once

#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "repository/model_repository.h"
#include "repository/testing/fake_backend.h"
#include "serving/catalog.h"

namespace braid::testing {

// All outlive it.
inline std::unique_ptr<ModelRepository> MakeFakeRepository(RepositoryOptions options, Catalog& catalog,
                                                           FakeBackend& backend, FakeFactory& factory,
                                                           Logger& log) {
  return std::make_unique<ModelRepository>(
      std::move(options), catalog, std::vector<Backend*>{&backend},
      [&factory](ServableInfo info, std::unique_ptr<BackendModel> model,
                 const FakeFactory::Progress& progress) {
        return factory(std::move(info), std::move(model), progress);
      },
      [&factory, &catalog](ServableInfo info,
                           const std::function<std::string(const std::string&)>& why_missing) {
        return factory.MakeEnsemble(std::move(info), catalog, why_missing);
      },
      log);
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
