// `braid serve`: the server, until a signal ends it.
#pragma once

namespace braid {

int RunServe(int argc, const char* const* argv);

}  // namespace braid
