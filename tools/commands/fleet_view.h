// The fleet view in the console of `braid serve`.
#pragma once

#include "server/fleet_view.h"

namespace braid {

extern const FleetView kFleetView;

}  // namespace braid
