// Image decoding in a native worker (--isolate=images): one worker for the whole server, started with the
// first image.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "backends/native/function_model.h"
#include "backends/native/native_function.h"
#include "backends/native/native_workers.h"
#include "base/mutex.h"
#include "images/image_codec.h"

namespace braid {

// The server's end. If a worker dies with an image, that image's request fails with kInternalError: the image
// may have crashed the worker.
class IsolatedImageCodec final : public ImageCodec {
 public:
  // `library`: as for OpenCvCodec; at most `most_images` are decoded at once. `workers` outlives this.
  IsolatedImageCodec(NativeWorkers& workers, std::string library, uint32_t most_images);
  ~IsolatedImageCodec() override;

  Result<std::unique_ptr<DecodedImage>> Decode(std::string_view encoded, const ImageTarget& target,
                                               const std::string& name) override;

  // The report of the worker; nullopt before the first image. Any thread.
  std::optional<InstanceReport> report() const BRAID_EXCLUDES(mutex_);

 private:
  Result<NativeFunction*> Worker() BRAID_EXCLUDES(mutex_);

  NativeWorkers& workers_;
  const std::string library_;
  const uint32_t most_images_;
  mutable Mutex mutex_;
  std::unique_ptr<NativeFunction> function_ BRAID_GUARDED_BY(mutex_);  // constant once made
};

// The worker's end. Pixels are written to `memory`, which outlives the function.
FunctionModel::Function ImageFunction(const std::string& library, BufferAllocator& memory);

}  // namespace braid
