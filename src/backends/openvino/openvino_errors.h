// The border to OpenVINO, which throws: nothing that it throws gets past these.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "base/guard.h"
#include "base/status.h"

namespace braid {

// What an exception says, in one line: without the places in OpenVINO's sources that its texts are full of.
std::string CleanOpenVinoText(std::string_view text);

// The text of the exception that is being handled. REQUIRES: called within a catch block.
std::string CurrentExceptionText();

// What OpenVINO makes of a std::bad_alloc of ours, which it takes for any exception.
inline constexpr std::string_view kFailedAllocationText = "std::bad_alloc";

// Runs `function`; returns what it throws as a status that `to_status` makes of the text. Where memory could not be had, for that or for
// what OpenVINO did, it is as Guarded() of base/guard.h has it.
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
