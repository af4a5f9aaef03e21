// EnsembleLinks: which ensembles use which models, and of which builds of them each was made; so which are to
// be made anew, and which can be made at last.
//
// Models are known by their names. A build is a number that changes with what is served of a model.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "repository/dependencies.h"
#include "serving/model_control.h"

namespace braid {

// Without threads, locks and disk; whoever owns it guards it.
class EnsembleLinks {
 public:
  // What is served of a model now; nothing while nothing is.
  using BuildOf = std::function<std::optional<uint64_t>(const std::string& model)>;

  // Which builds of `uses` there are, as one number.
  static uint64_t KeyOf(const std::set<std::string>& uses, const BuildOf& build_of);

  // `name` serves, made of those builds of `uses` that `key` stands for. A model that uses nothing is no
  // ensemble. It does not wait any longer.
  void Made(const std::string& name, std::set<std::string> uses, uint64_t key);
  // An ensemble that is wanted and not made yet waits for other builds of `uses` than those of `tried`, with
  // which it was tried; nothing: it was not. `request` loads it, without files.
  void Wait(LoadRequest request, std::set<std::string> uses, std::optional<uint64_t> tried);
  void StopWaiting(const std::string& name) { waiting_.erase(name); }
  // `name` is not known any longer.
  void Forget(const std::string& name);

  // By ensemble that was made, what it uses.
  Dependencies uses() const;
  std::set<std::string> UsesOf(const std::string& name) const;
  // Whether it was made of these builds of what it uses; models that are no ensembles are made of 0.
  bool IsMadeOf(const std::string& name, uint64_t key) const;

  // Whether the ensemble was made of other builds than there are now. Not while one of its models serves
  // nothing, and not when these builds were tried before.
  bool IsStale(const std::string& name, const BuildOf& build_of) const;
  // The builds that there are now are tried: what fails with them is not tried with them again.
  void NoteTried(const std::string& name, const BuildOf& build_of);

  // What it waits for; null when it does not wait.
  const std::set<std::string>* AwaitedBy(const std::string& name) const;
  // The request that makes an ensemble which waits, if it is to be tried: all of its models serve, and it was
  // not tried with these builds of them. It counts as tried then.
  std::optional<LoadRequest> TakeDue(const std::string& name, const BuildOf& build_of);
  // Whether it waits and was never tried.
  bool IsUntried(const std::string& name) const;

 private:
  struct Link {
    std::set<std::string> uses;
    uint64_t made_of = 0;
    uint64_t tried = 0;
  };
  struct Waiting {
    LoadRequest request;
    std::set<std::string> uses;
    std::optional<uint64_t> tried;
  };
  std::map<std::string, Link> links_;
  std::map<std::string, Waiting> waiting_;
};

}  // namespace braid
