// `braid init NAME --kind KIND`: makes a folder with a model that works, its test and a README.
#pragma once

namespace braid {

int RunInit(int argc, const char* const* argv);

}  // namespace braid
