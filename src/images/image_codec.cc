#include "images/image_codec.h"

#include <dlfcn.h>

#include "base/program_files.h"
#include "serving/faults.h"

namespace braid {
namespace {

Result<std::string> FindLibrary() {
  auto library = FindProgramFile("lib/libbraid_opencv.so", "libbraid_opencv.so");
  if (library.ok()) return library;
  return FaultError(Fault::kInternalError, "images cannot be decoded: " + library.status().message());
}

class OpenCvImage final : public DecodedImage {
 public:
  OpenCvImage(const BraidImageCodec& codec, void* image, ImageSize size)
      : image_(image, codec.end), codec_(codec), size_(size) {}

  ImageSize size() const override { return size_; }
  Status Write(uint8_t* pixels) const override {
    if (codec_.write(image_.get(), size_.width, size_.height, pixels) == 0) return OkStatus();
    return FaultError(Fault::kInternalError, "cannot resize the image");
  }

 private:
  const std::unique_ptr<void, void (*)(void*)> image_;
  const BraidImageCodec& codec_;
  const ImageSize size_;
};

}  // namespace

Result<const BraidImageCodec*> OpenCvCodec::Load() {
  MutexLock lock(mutex_);
  if (codec_ != nullptr) return codec_;
  if (path_.empty()) {
    BRAID_ASSIGN_OR_RETURN(path_, FindLibrary());
  }
  void* const handle = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* failure = handle == nullptr ? dlerror() : nullptr;
  const auto get = handle == nullptr
                       ? nullptr
                       : reinterpret_cast<decltype(&braid_image_codec)>(dlsym(handle, "braid_image_codec"));
  if (get == nullptr) {
    return FaultError(Fault::kInternalError, std::string("images cannot be decoded: ") +
                                                 (failure == nullptr ? "no codec in the library" : failure));
  }
  codec_ = get();
  return codec_;
}

Result<std::unique_ptr<DecodedImage>> OpenCvCodec::Decode(std::string_view encoded, const ImageTarget& target,
                                                          const std::string& name) {
  BRAID_ASSIGN_OR_RETURN(const BraidImageCodec* const codec, Load());
  ImageSize own;
  void* const decoded = codec->decode(reinterpret_cast<const uint8_t*>(encoded.data()), encoded.size(),
                                      target.gray, &own.width, &own.height);
  if (decoded == nullptr) return FaultError(Fault::kImageParsingFailed, name);
  return std::unique_ptr<DecodedImage>(std::make_unique<OpenCvImage>(*codec, decoded, target.SizeFor(own)));
}

}  // namespace braid
