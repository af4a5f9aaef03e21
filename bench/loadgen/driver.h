// The load of one thread: the folder load/ drives it, by what the options say.
#pragma once

#include <memory>

#include "load/connection.h"
#include "load/generator.h"
#include "options.h"
#include "recording.h"
#include "request_cycle.h"

namespace braid::bench {

class Driver {
 public:
  // `options` outlives the driver. Errors: an address that cannot be used.
  static Result<std::unique_ptr<Driver>> Make(const Options& options);

  // Asks once whether server and model are ready.
  bool Ready() const;
  // Tells the server of the shared memory, where there is some.
  Status RegisterMemory() const;
  // Keeps `slots` requests in flight, or sends them when they come, until window.stop, then finishes them. Runs on a thread of its own,
  // several at once; what fails goes to the recording.
  void Run(int slots, const Window& window, Recording& recording) const;

 private:
  Driver(const Options& options, std::shared_ptr<const load::Dialer> dialer);

  const Options& options_;
  const std::shared_ptr<const load::Dialer> dialer_;
  const load::Encoding encoding_;
  const RequestCycle<load::LoadRequest>::Maker requests_;
};

}  // namespace braid::bench
