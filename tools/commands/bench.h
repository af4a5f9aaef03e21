// `braid bench`: loads on a model of a running server, and what they show.
#pragma once

namespace braid {

int RunBench(int argc, const char* const* argv);

}  // namespace braid
