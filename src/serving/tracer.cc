#include "serving/tracer.h"

namespace braid {

std::vector<std::string> TraceSettings::levels() const {
  std::vector<std::string> levels;
  if (timestamps) levels.emplace_back("TIMESTAMPS");
  if (tensors) levels.emplace_back("TENSORS");
  if (levels.empty()) levels.emplace_back("OFF");
  return levels;
}

}  // namespace braid
