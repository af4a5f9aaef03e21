// The side of the generator that speaks a protocol.
#pragma once

#include <memory>

#include "options.h"
#include "recording.h"

namespace braid::bench {

class Driver {
 public:
  virtual ~Driver() = default;
  // Asks once whether server and model are ready.
  virtual bool Ready() = 0;
  // Keeps `slots` requests in flight until window.stop, then finishes them. Runs on a thread of its own,
  // several at once; what fails goes to the recording.
  virtual void Run(int slots, const Window& window, Recording& recording) = 0;
};

// gRPC, unary or one bidirectional stream a slot. `options` outlives the driver.
std::unique_ptr<Driver> MakeGrpcDriver(const Options& options);

// HTTP/1.1 with binary tensors or JSON, one kept-alive connection a slot. `options` outlives the driver.
std::unique_ptr<Driver> MakeHttpDriver(const Options& options);

}  // namespace braid::bench
