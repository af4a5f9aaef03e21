// `braid try MODEL`: sends one request to a server, with data from the user or generated from the model's
// metadata.
#pragma once

namespace braid {

int RunTry(int argc, const char* const* argv);

}  // namespace braid
