// NativeInstance: one instance of a NativeModel; all instances of the model share one worker.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "scheduling/instance.h"

namespace braid {

class NativeModel;

class NativeInstance final : public Instance {
 public:
  // `model` outlives the instance; `index` is its position among the model's instances.
  NativeInstance(NativeModel& model, uint32_t index, std::string name, bool passive)
      : model_(model), index_(index), name_(std::move(name)), passive_(passive) {}

  const std::string& name() const override { return name_; }
  bool passive() const override { return passive_; }
  void Execute(std::unique_ptr<Execution> execution) override;
  InstanceReport report() const override;

  uint32_t index() const { return index_; }
  void CountExecution() { executions_.fetch_add(1, std::memory_order_relaxed); }

 private:
  NativeModel& model_;
  const uint32_t index_;
  const std::string name_;
  const bool passive_;
  std::atomic<uint64_t> executions_{0};  // finished ones
};

}  // namespace braid
