// ServableNode: a node that is a servable of the catalog, whatever kind of servable that is.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pipeline/node.h"
#include "serving/servable_reference.h"

namespace braid {

class ServableNode final : public Node {
 public:
  // `outputs` are asked of the servable; none: all that it has. `catalog` outlives this.
  ServableNode(const Catalog& catalog, std::string model, int64_t version, std::vector<std::string> outputs)
      : servable_(catalog, std::move(model), version), outputs_(std::move(outputs)) {}

  const ServableReference& servable() const { return servable_; }

  // The version that is the right one now serves the whole session, also while it is being replaced or
  // unloaded. Errors: NOT_FOUND when there is none. The sessions use this node, which outlives them.
  Result<std::unique_ptr<NodeSession>> Open() const override;

 private:
  const ServableReference servable_;
  const std::vector<std::string> outputs_;
};

}  // namespace braid
