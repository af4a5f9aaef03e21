#include "pipeline/built_in_nodes.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/program_files.h"

namespace braid {
namespace {

constexpr std::string_view kFiles[] = {
    "libcustom_node_add_one.so",
    "libcustom_node_east_ocr.so",
    "libcustom_node_face_blur.so",
    "libcustom_node_horizontal_ocr.so",
    "libcustom_node_image_transformation.so",
    "libcustom_node_model_zoo_intel_object_detection.so",
};

}  // namespace

std::optional<std::string> BuiltInNodeFor(const std::string& base_path) {
  const std::filesystem::path path(base_path);
  const std::string name = path.filename().string();
  std::error_code error;
  if (std::ranges::find(kFiles, name) == std::end(kFiles) || std::filesystem::exists(path, error) || error)
    return std::nullopt;
  auto own = FindProgramFile("lib/custom_nodes/" + name, "custom_nodes/" + name);
  if (!own.ok()) return std::nullopt;
  return *std::move(own);
}

}  // namespace braid
