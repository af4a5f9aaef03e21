// The statistics of a servable as the message of the statistics extension.
#pragma once

#include "grpc_service.pb.h"
#include "serving/servable.h"

namespace braid {

void WriteStatistics(const ServableInfo& info, const StatisticsSnapshot& snapshot,
                     inference::ModelStatistics& message);

}  // namespace braid
