// ServableReference: a servable by its name, for somebody who asks it again and again: a step of an ensemble,
// a node of a pipeline.
//
// It remembers what it found until the catalog changes. It keeps nothing alive: an unloaded servable goes at
// once, and a reference to a servable that refers back is no circle.
//
//   ServableReference step(catalog, "resize", -1);
//   BRAID_ASSIGN_OR_RETURN(auto handle, step.Enter());
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "serving/catalog.h"

namespace braid {

class ServableReference {
 public:
  // `catalog` outlives this. A `version` of -1 is the highest that is ready.
  ServableReference(const Catalog& catalog, std::string name, int64_t version)
      : catalog_(catalog), name_(std::move(name)), version_(version) {}

  const std::string& name() const { return name_; }
  int64_t version() const { return version_; }

  // Errors: as those of CatalogReader::Find(). Any thread; one short lock of this reference's own.
  Result<std::unique_ptr<ServableHandle>> Enter() const;
  // The same without entering it: for a look at what it is. Any thread.
  Result<std::shared_ptr<Servable>> Get() const;

 private:
  const Catalog& catalog_;
  const std::string name_;
  const int64_t version_;

  mutable Mutex mutex_;
  mutable std::weak_ptr<Servable> found_ BRAID_GUARDED_BY(mutex_);
  mutable uint64_t generation_ BRAID_GUARDED_BY(mutex_) = ~uint64_t{0};  // of the catalog, when it was found
};

}  // namespace braid
