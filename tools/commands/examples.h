// `braid examples [DIR]`: lists the examples that are installed with the program, and copies them.
#pragma once

namespace braid {

int RunExamples(int argc, const char* const* argv);

}  // namespace braid
