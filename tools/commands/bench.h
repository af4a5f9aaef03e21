// `braid bench`: puts load on a model of a running server and reports throughput and latency.
#pragma once

namespace braid {

int RunBench(int argc, const char* const* argv);

}  // namespace braid
