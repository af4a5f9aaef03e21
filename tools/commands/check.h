// `braid check`: whether files of models would load, and what is to be changed, without serving them.
#pragma once

namespace braid {

// The exit code is 0 when all would load, 1 when something would not (with --strict also when there is anything to say),
// 2 for a wrong use.
int RunCheck(int argc, const char* const* argv);

}  // namespace braid
