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
    {"braid_sequences_active", "Sequences that exist.", prometheus::MetricType::Gauge,
     CountOfSequences<&SequenceCounts::active>},
    {"braid_sequences_started", "Sequences that were started.", prometheus::MetricType::Counter,
     CountOfSequences<&SequenceCounts::started>},
    {"braid_sequences_restored", "Sequences that came from an earlier life of the model.",
     prometheus::MetricType::Counter, CountOfSequences<&SequenceCounts::restored>},
    {"braid_sequences_ended", "Sequences that were ended by a request.", prometheus::MetricType::Counter,
     CountOfSequences<&SequenceCounts::ended>},
    {"braid_sequences_expired", "Sequences that ended because they were idle.",
     prometheus::MetricType::Counter, CountOfSequences<&SequenceCounts::expired>},
    {"braid_sequences_lost",
     "Sequences whose first request failed, whose instance died, or that the server has dropped.",
     prometheus::MetricType::Counter, CountOfSequences<&SequenceCounts::lost>},
    {"braid_sequences_rejected",
     "Requests refused since their sequence is missing, ends or exists already, or since there are too many.",
     prometheus::MetricType::Counter, CountOfSequences<&SequenceCounts::rejected>},
    {"braid_sequence_store_written", "States, and ends of sequences, that the store has taken.",
     prometheus::MetricType::Counter, CountOfStore<&SequenceStoreCounts::written>},
    {"braid_sequence_store_failed", "Questions to the store that it has refused or not answered in time.",
     prometheus::MetricType::Counter, CountOfStore<&SequenceStoreCounts::failed>},
    {"braid_sequence_store_taken_over", "Sequences that were taken over from the store.",
     prometheus::MetricType::Counter, CountOfStore<&SequenceStoreCounts::taken_over>},
    {"braid_sequence_store_fenced",
     "Writes that were refused, since the sequence has another owner or is not in the store any more.",
     prometheus::MetricType::Counter, CountOfStore<&SequenceStoreCounts::fenced>},
    {"braid_sequence_store_unconfirmed", "Sequences whose last states the store has not confirmed.",
     prometheus::MetricType::Gauge, CountOfStore<&SequenceStoreCounts::unconfirmed>},
    {"braid_sequence_store_lag_ms", "Since when the oldest of those has waited, in milliseconds.",
     prometheus::MetricType::Gauge, CountOfStore<&SequenceStoreCounts::lag_ms>},
};

}  // namespace braid
