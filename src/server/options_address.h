// Options for the addresses of ports.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "server/options.h"

namespace braid {

// Checks the addresses of Unix sockets in a list.
Status CheckAddresses(std::string_view text);

// Whether a list has the address of a Unix socket, or another one.
bool HasUnixSocket(const std::string& addresses);
bool HasPort(const std::string& addresses);
// Returns the list without Unix sockets.
std::string WithoutUnixSockets(const std::string& addresses);

// --host: the address for HTTP, gRPC and metrics, except where a port's own option is given.
Status SetHost(ServerOptions& options, std::string_view text);
std::string ShowHost(const ServerOptions& options);

Status SetAdminAddress(ServerOptions& options, std::string_view text);
std::string ShowAdminAddress(const ServerOptions& options);

Status SetUnixSocketMode(ServerOptions& options, std::string_view text);
std::string ShowUnixSocketMode(const ServerOptions& options);

// Checks that the options for addresses fit together.
Status CheckAddressesTogether(const ServerOptions& options);
// Notes given ports of protocols that listen on Unix sockets only.
void NotePortsWithoutEffect(CommandLine& line);

}  // namespace braid
