#include "backends/openvino/image_settings.h"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace braid {
namespace {

using ov::preprocess::ColorFormat;

std::optional<ColorFormat> ColorFormatByName(std::string_view name) {
  constexpr std::pair<std::string_view, ColorFormat> kFormats[] = {
      {"RGB", ColorFormat::RGB},
      {"BGR", ColorFormat::BGR},
      {"GRAY", ColorFormat::GRAY},
      {"NV12", ColorFormat::NV12_SINGLE_PLANE},
      {"I420", ColorFormat::I420_SINGLE_PLANE},
  };
  for (const auto& [known, format] : kFormats) {
    if (known == name) return format;
  }
  return std::nullopt;
}

Status ColorError(const std::string& text) {
  return InvalidArgumentError(
      "color_format: expected CLIENT:MODEL, each one of RGB, BGR, GRAY, NV12 and I420; got '" + text + "'");
}

std::vector<float> ToFloats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

}  // namespace

Result<bool> ApplyImageSettings(const OvmsModelConfig& config, const std::string& input_name,
                                const std::string& layout, const ov::element::Type& type,
                                const ov::element::Type& model_type, ov::preprocess::InputInfo& input) {
  const bool colors = !config.color_format.empty();
  if (!colors && config.mean.empty() && config.scale.empty()) return false;
  if (type == ov::element::string) {
    return InvalidArgumentError("mean, scale and color_format: input '" + input_name + "' takes strings");
  }
  const bool channels = colors || config.mean.size() > 1 || config.scale.size() > 1;
  if (channels && !ov::layout::has_channels(ov::Layout(layout))) {
    return InvalidArgumentError("mean, scale and color_format: the layout of input '" + input_name + "', '" +
                                layout + "', has no channel dimension; set one, e.g. NHWC");
  }
  auto& steps = input.preprocess();
  if (colors) {
    const size_t colon = config.color_format.find(':');
    const auto client = ColorFormatByName(std::string_view(config.color_format).substr(0, colon));
    const auto model = colon == std::string::npos
                           ? client
                           : ColorFormatByName(std::string_view(config.color_format).substr(colon + 1));
    if (!client || !model) return ColorError(config.color_format);
    if (*client != *model) {
      input.tensor().set_color_format(*client);
      steps.convert_color(*model);
    }
  }
  if (!config.mean.empty() || !config.scale.empty()) {
    // Pixels are integers, but mean and scale are not.
    const ov::element::Type real = model_type.is_real() ? model_type : ov::element::f32;
    if (type != real) steps.convert_element_type(real);
    if (config.mean.size() == 1) steps.mean(static_cast<float>(config.mean[0]));
    if (config.mean.size() > 1) steps.mean(ToFloats(config.mean));
    if (config.scale.size() == 1) steps.scale(static_cast<float>(config.scale[0]));
    if (config.scale.size() > 1) steps.scale(ToFloats(config.scale));
  }
  return true;
}

}  // namespace braid
