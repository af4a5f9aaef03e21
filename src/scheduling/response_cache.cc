#include "scheduling/response_cache.h"

#include <xxhash.h>

#include <random>
#include <string_view>
#include <variant>
#include <vector>

#include "base/guard.h"

namespace braid {
namespace {

// The approximate size of an entry besides its tensors' bytes.
constexpr size_t kEntryBytes = 256;
constexpr size_t kTensorBytes = 128;

uint64_t RandomSeed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

// Hashes values so that no two different sequences look alike: the length precedes each text and list.
class Hasher {
 public:
  explicit Hasher(uint64_t seed) { XXH3_128bits_reset_withSeed(state_.get(), seed); }

  void Number(uint64_t number) { XXH3_128bits_update(state_.get(), &number, sizeof(number)); }
  void Text(std::string_view text) {
    Number(text.size());
    XXH3_128bits_update(state_.get(), text.data(), text.size());
  }
  void Value(const std::string& text) { Text(text); }
  template <class T>
  void Value(T value) {
    XXH3_128bits_update(state_.get(), &value, sizeof(value));
  }
  ResponseCache::Key key() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return {hash.low64, hash.high64};
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  // Only the library knows its size.
  const std::unique_ptr<XXH3_state_t, Free> state_{XXH3_createState()};
};

size_t SizeOf(const InferenceResponse& response) {
  size_t bytes = kEntryBytes;
  for (const Tensor& output : response.outputs)
    bytes += kTensorBytes + output.name.size() + output.data.size();
  for (const auto& [name, value] : response.parameters) {
    bytes += kTensorBytes + name.size();
    if (const auto* text = std::get_if<std::string>(&value)) bytes += text->size();
  }
  return bytes;
}

InferenceResponse CopyOf(const InferenceResponse& response) {
  InferenceResponse copy = response;
  for (Tensor& output : copy.outputs) output.data = CopyToHeap({output.data.data(), output.data.size()});
  return copy;
}

}  // namespace

ResponseCache::ResponseCache(size_t max_bytes) : max_bytes_(max_bytes), seed_(RandomSeed()) {}

ResponseCache::Key ResponseCache::KeyOf(uint64_t load, const InferenceRequest& request) const {
  Hasher hasher(seed_);
  hasher.Number(load);
  hasher.Number(request.inputs.size());
  for (const Tensor& input : request.inputs) {
    hasher.Text(input.name);
    hasher.Number(static_cast<uint64_t>(input.type));
    hasher.Number(input.shape.size());
    for (int64_t dim : input.shape) hasher.Number(static_cast<uint64_t>(dim));
    hasher.Text(input.data.text());
  }
  hasher.Number(request.renders_chat ? 1 : 0);
  hasher.Number(request.requested_outputs.size());
  for (const std::string& output : request.requested_outputs) hasher.Text(output);
  hasher.Number(request.parameters.size());
  for (const auto& [name, value] : request.parameters) {
    hasher.Text(name);
    hasher.Number(value.index());
    std::visit([&hasher](const auto& v) { hasher.Value(v); }, value);
  }
  return hasher.key();
}

std::optional<InferenceResponse> ResponseCache::Find(const Key& key) {
  std::shared_ptr<const InferenceResponse> found;
  {
    MutexLock lock(mutex_);
    const auto at = index_.find(key);
    if (at == index_.end()) return std::nullopt;
    entries_.splice(entries_.begin(), entries_, at->second);
    found = at->second->response;
  }
  return *found;
}

void ResponseCache::Insert(const Key& key, uint64_t load, const InferenceResponse& response) {
  const size_t bytes = SizeOf(response);
  if (bytes > max_bytes_) return;
  auto kept = std::make_shared<const InferenceResponse>(CopyOf(response));
  const RetryingAllocation retrying;
  std::vector<std::shared_ptr<const InferenceResponse>> evicted;  // destroyed after the lock is released
  MutexLock lock(mutex_);
  if (index_.contains(key)) return;
  while (bytes_ + bytes > max_bytes_) evicted.push_back(Remove(std::prev(entries_.end())));
  entries_.push_front({key, load, bytes, std::move(kept)});
  index_.emplace(key, entries_.begin());
  bytes_ += bytes;
}

void ResponseCache::Forget(uint64_t load) {
  std::vector<std::shared_ptr<const InferenceResponse>> forgotten;
  MutexLock lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->load == load) forgotten.push_back(Remove(entry));
    entry = next;
  }
}

std::shared_ptr<const InferenceResponse> ResponseCache::Remove(Entries::iterator entry) {
  auto response = std::move(entry->response);
  bytes_ -= entry->bytes;
  index_.erase(entry->key);
  entries_.erase(entry);
  return response;
}

uint64_t ResponseCache::NextLoad() {
  MutexLock lock(mutex_);
  return ++last_load_;
}

ResponseCache::Usage ResponseCache::usage() const {
  MutexLock lock(mutex_);
  return {bytes_, entries_.size()};
}

}  // namespace braid
