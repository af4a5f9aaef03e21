// RequestSource: makes the infer requests of a model, and makes anew what an inference has spoiled.
//
// OpenVINO's CPU device works out the shapes within a network before it computes anything, and where that
// fails half of them are those of the request that failed, and the other half those of the one before it. It
// then takes shapes for known that are not: requests that it has served fail, whichever infer request they
// come by, until all shapes happen to change. So a compiled model in which an inference has failed is
// discarded, and compiled anew before the next one.
//
// That takes long, so it is not to happen twice for shapes that the network cannot do: once something has
// failed, shapes that have not been seen are first tried on the network itself, which is not compiled.
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

  // `model` is what was compiled, and `compile` compiles it again.
  RequestSource(ov::CompiledModel compiled, std::shared_ptr<const ov::Model> model, Compile compile);

  // `renew` is called, by the source's thread, when a compiled model has been discarded, so that nobody keeps
  // it in memory. Before anything else.
  void OnDiscarded(std::function<void()> renew) { renew_ = std::move(renew); }

  // Compiles the model if it has been discarded. Errors: what OpenVINO says.
  Result<Made> Make();

  // Whether no inference has failed in this generation. What ends in another one is not to be believed.
  bool IsCurrent(uint64_t generation) const {
    return generation_.load(std::memory_order_acquire) == generation;
  }
  // An inference of `generation` has failed. Returns whether it is the first one of those.
  bool Discard(uint64_t generation);

  // Whether shapes have to be tried before they are given to the device.
  bool is_careful() const { return dynamic_inputs_ && !IsCurrent(0); }
  bool has_dynamic_inputs() const { return dynamic_inputs_; }
  // Whether these, one for each input, have been tried and are good.
  bool Knows(const std::vector<ov::Shape>& shapes) const;
  // Tries them: takes about a tenth of a millisecond for ten operations. Returns why the network cannot do
  // them, if it cannot.
  std::optional<std::string> Try(const std::vector<ov::Shape>& shapes);

  // Has `work` done by the source's thread, which may take long over what it does.
  void Run(std::function<void()> work) { thread_.Run(std::move(work)); }

 private:
  const Compile compile_;
  const bool is_dynamic_;  // has shapes that depend on a request; else nothing is spoiled
  const bool dynamic_inputs_;
  std::function<void()> renew_;
  std::atomic<uint64_t> generation_{0};

  Mutex make_mutex_;
  ov::CompiledModel compiled_ BRAID_GUARDED_BY(make_mutex_);
  uint64_t compiled_generation_ BRAID_GUARDED_BY(make_mutex_) = 0;

  Mutex try_mutex_;
  std::shared_ptr<ov::Model> tried_ BRAID_GUARDED_BY(try_mutex_);  // null where inputs are static

  mutable Mutex known_mutex_;  // a leaf lock
  std::set<std::vector<ov::Shape>> known_ BRAID_GUARDED_BY(known_mutex_);

  ElasticThreads thread_{{.name = "brd-openvino", .most = 1}};  // ends first
};

}  // namespace braid
