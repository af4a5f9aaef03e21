// The files of the console's page over HTTP: /console/, without a question about rights, since they are the same for
// everybody and say nothing of the server.
#pragma once

#include <span>
#include <string_view>

#include "protocols/console/console_asset.h"
#include "protocols/http/message.h"

namespace braid {

// The answer to a GET of /console/{path}; "" is index.html. As the client takes it: compressed or not, or 304 for what it
// has. 404 for a file that there is not.
HttpResponse StaticFile(std::span<const ConsoleAsset> assets, std::string_view path, const HttpHead& head);

// Whether the contents of a file of this name never change: there is a hash in it, as in "app.5f3a9c02.js".
bool HasHash(std::string_view path);

}  // namespace braid
