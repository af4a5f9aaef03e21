#include "console_assets.h"

namespace braid {

std::span<const ConsoleAsset> ConsoleAssets() { return {}; }

}  // namespace braid
