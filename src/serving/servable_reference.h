// ServableReference: a reference by name to a servable that is called repeatedly, such as an ensemble's step
// or a pipeline's node.
//
// It caches the servable until the catalog changes. It holds no ownership: an unloaded servable is destroyed
// at once, and servables that refer to each other form no ownership cycle.
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
  // `catalog` outlives this. A `version` of -1 is the highest ready one.
  ServableReference(const Catalog& catalog, std::string name, int64_t version)
      : catalog_(catalog), name_(std::move(name)), version_(version) {}

  const std::string& name() const { return name_; }
  int64_t version() const { return version_; }

  // Enters the servable's gate. Errors: as for CatalogReader::Find(). Any thread; takes this reference's lock
  // briefly.
  Result<std::unique_ptr<ServableHandle>> Enter() const;
  // Returns the servable without entering its gate, for reading its description. Any thread.
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
