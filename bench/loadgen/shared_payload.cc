#include "shared_payload.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/unique_fd.h"

namespace braid::bench {

Result<std::shared_ptr<SharedPayload>> SharedPayload::Make(const std::vector<InputTensor>& inputs) {
  size_t half = 0;
  for (const InputTensor& input : inputs) half += input.data.size();
  const std::string key = "/braid_loadgen_" + std::to_string(getpid());
  const UniqueFd file(shm_open(key.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return InternalError("cannot make shared memory " + key);
  void* base = MAP_FAILED;
  if (half > 0 && ftruncate(file.get(), static_cast<off_t>(2 * half)) == 0) {
    base = mmap(nullptr, 2 * half, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  }
  if (base == MAP_FAILED) {
    shm_unlink(key.c_str());
    return InternalError("cannot map the inputs as shared memory");
  }
  std::shared_ptr<SharedPayload> payload(new SharedPayload(key, static_cast<char*>(base), 2 * half));
  size_t at = 0;
  for (const InputTensor& input : inputs) {
    std::memcpy(payload->base_ + at, input.data.data(), input.data.size());
    payload->offsets_.push_back(at);
    payload->sizes_.push_back(input.data.size());
    at += input.data.size();
  }
  // So that the server's first response does not cause page faults.
  std::memset(payload->base_ + half, 0, half);
  return payload;
}

SharedPayload::~SharedPayload() {
  munmap(base_, byte_size_);
  shm_unlink(key_.c_str());
}

void SharedPayload::SpoilOutputs() {
  for (size_t i = 0; i < sizes_.size(); ++i) {
    base_[output_offset(i)] ^= '\xff';
    base_[output_offset(i) + sizes_[i] - 1] ^= '\xff';
  }
}

void SharedPayload::FillIn(std::vector<OutputView>& outputs) const {
  for (OutputView& output : outputs) {
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (output.name == "OUTPUT" + std::to_string(i)) output.data = {{base_ + output_offset(i), sizes_[i]}};
    }
  }
}

}  // namespace braid::bench
