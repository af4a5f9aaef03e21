// The metrics of servables with sequences, shared by both endpoints.
#pragma once

#include <prometheus/metric_type.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "serving/sequences.h"

namespace braid {

struct SequenceMetric {
  std::string_view name;
  std::string_view help;
  prometheus::MetricType type;
  // Returns nullopt if the metric does not apply.
  std::optional<uint64_t> (*count)(const SequenceKeeper& sequences);
};

template <uint64_t SequenceCounts::*kCount>
std::optional<uint64_t> CountOfSequences(const SequenceKeeper& sequences) {
  return sequences.counts().*kCount;
}

template <uint64_t SequenceStoreCounts::*kCount>
std::optional<uint64_t> CountOfStore(const SequenceKeeper& sequences) {
  const std::optional<SequenceStoreCounts> counts = sequences.store_counts();
  return counts ? std::optional(*counts.*kCount) : std::nullopt;
}

inline constexpr SequenceMetric kSequenceMetrics[] = {
    {"braid_sequences_active", "Active sequences.", prometheus::MetricType::Gauge,
     CountOfSequences<&SequenceCounts::active>},
    {"braid_sequences_started", "Sequences that were started.", prometheus::MetricType::Counter,
     CountOfSequences<&SequenceCounts::started>},
    {"braid_sequences_restored", "Sequences restored after a reload of the model or a restart.",
     prometheus::MetricType::Counter, CountOfSequences<&SequenceCounts::restored>},
    {"braid_sequences_ended", "Sequences that were ended by a request.", prometheus::MetricType::Counter,
     CountOfSequences<&SequenceCounts::ended>},
    {"braid_sequences_expired", "Sequences that ended because they were idle.",
     prometheus::MetricType::Counter, CountOfSequences<&SequenceCounts::expired>},
    {"braid_sequences_lost",
     "Sequences whose first request failed, whose instance died, or that the server has dropped.",
     prometheus::MetricType::Counter, CountOfSequences<&SequenceCounts::lost>},
    {"braid_sequences_rejected",
     "Requests refused because their sequence is missing, ending or already exists, or because there are too "
     "many.",
     prometheus::MetricType::Counter, CountOfSequences<&SequenceCounts::rejected>},
    {"braid_sequence_store_written", "Sequence states and sequence ends that the store has accepted.",
     prometheus::MetricType::Counter, CountOfStore<&SequenceStoreCounts::written>},
    {"braid_sequence_store_failed", "Requests to the store that were refused or timed out.",
     prometheus::MetricType::Counter, CountOfStore<&SequenceStoreCounts::failed>},
    {"braid_sequence_store_taken_over", "Sequences that were taken over from the store.",
     prometheus::MetricType::Counter, CountOfStore<&SequenceStoreCounts::taken_over>},
    {"braid_sequence_store_fenced",
     "Writes refused because the sequence has another owner or is no longer in the store.",
     prometheus::MetricType::Counter, CountOfStore<&SequenceStoreCounts::fenced>},
    {"braid_sequence_store_unconfirmed", "Sequences whose latest state the store has not confirmed.",
     prometheus::MetricType::Gauge, CountOfStore<&SequenceStoreCounts::unconfirmed>},
    {"braid_sequence_store_lag_ms", "Age of the oldest unconfirmed state, in milliseconds.",
     prometheus::MetricType::Gauge, CountOfStore<&SequenceStoreCounts::lag_ms>},
};

}  // namespace braid
