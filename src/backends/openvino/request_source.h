// RequestSource: makes the infer requests of a model, and recompiles a model that a failed inference has
// spoiled.
//
// OpenVINO's CPU device computes all shapes within a network before any values. If that fails, half of the
// shapes belong to the failed request, and half to the one before. The device then takes wrong shapes for
// known. Valid requests fail, by every infer request, until all shapes happen to change. So the source
// discards a compiled model after a failed inference, and compiles it again before the next one.
//
// Compiling takes long, so it must not happen twice for shapes that the network does not accept. After the
// first failure, new shapes are first tried on the network itself, which is not compiled.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <openvino/openvino.hpp>

#include "base/elastic_threads.h"
#include "base/mutex.h"
#include "base/status.h"

namespace braid {

class RequestSource {
 public:
  using Compile = std::function<Result<ov::CompiledModel>()>;
  struct Made {
    ov::InferRequest request;
    uint64_t generation = 0;  // of the compiled model, counted from 0
  };

  // `model` is the source of `compiled`; `compile` compiles it again.
  RequestSource(ov::CompiledModel compiled, std::shared_ptr<const ov::Model> model, Compile compile);

  // `renew` runs on the source's thread after a compiled model was discarded: it replaces the infer requests,
  // so that they do not keep that model in memory. REQUIRES: called before any other method.
  void OnDiscarded(std::function<void()> renew) { renew_ = std::move(renew); }

  // Returns an infer request; compiles the model first if it was discarded. Errors: those of `compile`;
  // INTERNAL with OpenVINO's text.
  Result<Made> Make();

  // Whether no inference has failed in this generation. Results of an older generation cannot be trusted.
  bool IsCurrent(uint64_t generation) const {
    return generation_.load(std::memory_order_acquire) == generation;
  }
  // Reports a failed inference of `generation`, whose compiled model is discarded. Returns whether it is the
  // first failure of that generation. Always true for a model with static shapes, which is not discarded.
  bool Discard(uint64_t generation);

  // Whether shapes must be tried before the device gets them.
  bool is_careful() const { return dynamic_inputs_ && !IsCurrent(0); }
  bool has_dynamic_inputs() const { return dynamic_inputs_; }
  // Whether these shapes, one for each input, were tried and accepted.
  bool Knows(const std::vector<ov::Shape>& shapes) const;
  // Tries shapes on the network; takes about 0.1 ms for ten operations. Returns the reason if the network
  // does not accept them.
  std::optional<std::string> Try(const std::vector<ov::Shape>& shapes);

  // Runs `work`, which may take long, on the source's thread.
  void Run(std::function<void()> work) { thread_.Run(std::move(work)); }

 private:
  const Compile compile_;
  const bool is_dynamic_;  // has shapes that depend on a request; only these models are spoiled
  const bool dynamic_inputs_;
  std::function<void()> renew_;
  std::atomic<uint64_t> generation_{0};

  Mutex make_mutex_;
  ov::CompiledModel compiled_ BRAID_GUARDED_BY(make_mutex_);
  uint64_t compiled_generation_ BRAID_GUARDED_BY(make_mutex_) = 0;

  Mutex try_mutex_;
  std::shared_ptr<ov::Model> tried_ BRAID_GUARDED_BY(try_mutex_);  // null if all inputs are static

  mutable Mutex known_mutex_;  // a leaf lock
  std::set<std::vector<ov::Shape>> known_ BRAID_GUARDED_BY(known_mutex_);

  ElasticThreads thread_{{.name = "brd-openvino", .most = 1}};  // destroyed first
};

}  // namespace braid
