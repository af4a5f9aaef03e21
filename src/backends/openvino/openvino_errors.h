// Converts OpenVINO's exceptions to statuses, so that none leaves the backend.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "base/guard.h"
#include "base/status.h"

namespace braid {

// Returns the text of an exception in one line, without the locations in OpenVINO's sources.
std::string CleanOpenVinoText(std::string_view text);

// Returns the text of the current exception. REQUIRES: called within a catch block.
std::string CurrentExceptionText();

// The text of the exception that OpenVINO throws in place of a std::bad_alloc from the server's memory.
inline constexpr std::string_view kFailedAllocationText = "std::bad_alloc";

// Runs `function` and converts an exception to a status: `to_status` makes it of the text. If an allocation
// failed, here or in OpenVINO, returns the status of Guarded() in base/guard.h.
//   BRAID_RETURN_IF_ERROR(Guarded([&] { request.infer(); }, [](std::string text) { return ...; }));
template <class Function, class ToStatus>
Status Guarded(const Function& function, const ToStatus& to_status) noexcept {
  try {
    function();
    return OkStatus();
  } catch (...) {
    Status status;
    const Status fault = Guarded([&] {
      const std::string text = CurrentExceptionText();
      status = text == kFailedAllocationText ? OutOfMemory() : to_status(text);
    });
    return fault.ok() ? status : fault;
  }
}

}  // namespace braid
