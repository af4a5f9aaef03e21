// The metrics of servables that have sequences, as both endpoints give them: what is counted, and how it is
// called.
#pragma once

#include <prometheus/metric_type.h>

#include <cstdint>
#include <string_view>

#include "serving/sequences.h"

namespace braid {

struct SequenceMetric {
  std::string_view name;
  std::string_view help;
  prometheus::MetricType type;
  uint64_t SequenceCounts::*count;
};

inline constexpr SequenceMetric kSequenceMetrics[] = {
    {"braid_sequences_active", "Sequences that exist.", prometheus::MetricType::Gauge,
     &SequenceCounts::active},
    {"braid_sequences_started", "Sequences that were started.", prometheus::MetricType::Counter,
     &SequenceCounts::started},
    {"braid_sequences_restored", "Sequences that came from an earlier life of the model.",
     prometheus::MetricType::Counter, &SequenceCounts::restored},
    {"braid_sequences_ended", "Sequences that were ended by a request.", prometheus::MetricType::Counter,
     &SequenceCounts::ended},
    {"braid_sequences_expired", "Sequences that ended since nobody used them.",
     prometheus::MetricType::Counter, &SequenceCounts::expired},
    {"braid_sequences_lost",
     "Sequences whose first request failed, whose instance died, or that the server has dropped.",
     prometheus::MetricType::Counter, &SequenceCounts::lost},
    {"braid_sequences_rejected",
     "Requests refused since their sequence is missing, ends or exists already, or since there are too many.",
     prometheus::MetricType::Counter, &SequenceCounts::rejected},
};

}  // namespace braid
