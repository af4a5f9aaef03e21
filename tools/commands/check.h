// `braid check`: says whether model files would load and which changes they need, without serving them.
#pragma once

namespace braid {

// The exit code is 0 if everything would load, 1 if something would not (with --strict also if there are any
// findings), and 2 for wrong usage.
int RunCheck(int argc, const char* const* argv);

}  // namespace braid
