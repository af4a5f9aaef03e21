// `braid serve`: runs the server until a signal ends it.
#pragma once

#include "server/fleet_view.h"

namespace braid {

int RunServe(int argc, const char* const* argv, const FleetView* fleet_view);

}  // namespace braid
