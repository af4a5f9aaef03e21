// TestWorkers: native workers for tests, which run native_test_worker.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/native/native_workers.h"
#include "base/log.h"
#include "base/testing/places.h"
#include "serving/catalog.h"

namespace braid {

class TestWorkers {
 public:
  // `log` outlives this.
  explicit TestWorkers(Logger& log) : log_(log) { services_.catalog = &catalog_; }

  // Makes workers of `program`; the name of a fault as an argument makes them faulty. They end before this.
  NativeWorkers& Make(std::vector<std::string> program = {test_places::kNativeWorker}) {
    NativeWorkers::Options options;
    options.program = std::move(program);
    options.services = &services_;
    options.support = [this]() -> Result<std::shared_ptr<WorkerSupport>> {
      if (support_ == nullptr) {
        BRAID_ASSIGN_OR_RETURN(support_, WorkerSupport::Create(log_));
      }
      return support_;
    };
    return *workers_.emplace_back(std::make_unique<NativeWorkers>(std::move(options)));
  }

 private:
  Logger& log_;
  Catalog catalog_;
  WorkerServices services_;
  std::shared_ptr<WorkerSupport> support_;
  std::vector<std::unique_ptr<NativeWorkers>> workers_;
};

}  // namespace braid
