#include "base/thread.h"

#include <pthread.h>

#include <system_error>
#include <utility>

#include "base/guard.h"

namespace braid {

void SetThreadName(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

std::thread StartThread(std::string name, std::function<void()> body) {
  return std::thread([name = std::move(name), body = std::move(body)] {
    SetThreadName(name);
    GuardedOrReport(name, body);
  });
}

Result<std::thread> TryStartThread(const std::string& name, std::function<void()> body) {
  try {
    return StartThread(name, std::move(body));
  } catch (const std::system_error& error) {
    return ResourceExhaustedError("cannot start thread '" + name + "': " + error.code().message());
  }
}

}  // namespace braid
