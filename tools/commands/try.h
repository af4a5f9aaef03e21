// `braid try MODEL`: one request to a server, with data that is made from the model's metadata or given.
#pragma once

namespace braid {

int RunTry(int argc, const char* const* argv);

}  // namespace braid
