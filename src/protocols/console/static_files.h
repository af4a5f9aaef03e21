// Static files of the console's page, below /console/. They need no rights: they are the same for all clients
// and contain no data of the server.
#pragma once

#include <span>
#include <string_view>

#include "protocols/console/console_asset.h"
#include "protocols/http/message.h"

namespace braid {

// Returns the answer to GET /console/{path}; "" is index.html. It is compressed if the client accepts that,
// 304 if the client has the file, and 404 for an unknown file.
HttpResponse StaticFile(std::span<const ConsoleAsset> assets, std::string_view path, const HttpHead& head);

// Returns whether the name has a hash, as in "app.5f3a9c02.js", so that the file's contents never change.
bool HasHash(std::string_view path);

}  // namespace braid
