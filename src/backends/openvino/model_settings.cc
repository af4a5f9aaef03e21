#include "backends/openvino/model_settings.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "backends/openvino/element_types.h"
#include "backends/openvino/image_settings.h"
#include "backends/openvino/openvino_errors.h"
#include "serving/faults.h"

namespace braid {
namespace {

using Ports = std::vector<PortNames>;

Status SettingError(const std::string& setting, const std::string& what) {
  return InvalidArgumentError(setting + ": " + what);
}

// Checks that each name in a setting is a port, and that a setting without a name has only one port.
template <class T>
Status CheckNames(const std::string& setting, const std::map<std::string, T>& values, const Ports& ports,
                  const Ports* more_ports) {
  for (const auto& [name, value] : values) {
    if (name.empty()) {
      if (ports.size() == 1) continue;
      return SettingError(setting, "the model has " + std::to_string(ports.size()) +
                                       " inputs, so each must be named: " + ListNames(ports));
    }
    const auto has = [&name = name](const Ports& all) {
      return std::any_of(all.begin(), all.end(), [&](const PortNames& port) { return port.Has(name); });
    };
    if (has(ports) || (more_ports != nullptr && has(*more_ports))) continue;
    return SettingError(setting,
                        "the model has no '" + name + "'; its inputs are: " + ListNames(ports) +
                            (more_ports == nullptr ? "" : "; its outputs are: " + ListNames(*more_ports)));
  }
  return OkStatus();
}

// Returns the layout that the model's author wrote; otherwise assumes that the batch comes first.
std::string DefaultLayout(const ov::Layout& own, const ov::PartialShape& shape) {
  if (!own.empty()) {
    // "[N,C,H,W]" -> "NCHW", the way settings write it, where that is possible.
    std::string text = own.to_string();
    std::string plain;
    for (char c : text) {
      if (c != '[' && c != ']' && c != ',') plain += c;
    }
    return plain;
  }
  if (shape.rank().is_static() && shape.rank().get_length() == 0) return "...";
  return "N...";
}

// Applies layouts and precisions of inputs and outputs, and image settings.
Status Preprocess(const OvmsModelConfig& config, const ModelNames& names, std::shared_ptr<ov::Model>& model,
                  AppliedSettings& applied) {
  ov::preprocess::PrePostProcessor processor(model);
  bool changed = false;
  for (size_t i = 0; i < names.inputs.size(); ++i) {
    const bool only = names.inputs.size() == 1;
    auto& input = processor.input(i);
    const auto parameter = model->get_parameters()[i];
    applied.input_layouts.push_back(DefaultLayout(parameter->get_layout(), parameter->get_partial_shape()));
    if (const OvmsLayout* layout = FindSetting(config.layouts, names.inputs[i], only)) {
      changed = true;
      applied.input_layouts.back() = layout->tensor;
      input.tensor().set_layout(ov::Layout(layout->tensor));
      input.model().set_layout(ov::Layout(layout->model.empty() ? layout->tensor : layout->model));
    }
    ov::element::Type type = parameter->get_element_type();
    if (const std::string* precision = FindSetting(config.precisions, names.inputs[i], only)) {
      const auto wanted = ElementTypeByName(*precision);
      if (!wanted) return SettingError("precision", "'" + *precision + "' is not known");
      changed = true;
      type = *wanted;
      input.tensor().set_element_type(type);
    }
    BRAID_ASSIGN_OR_RETURN(
        const bool image, ApplyImageSettings(config, names.inputs[i].name, applied.input_layouts.back(), type,
                                             parameter->get_element_type(), input));
    changed = changed || image;
  }
  for (size_t i = 0; i < names.outputs.size(); ++i) {
    auto& output = processor.output(i);
    applied.output_layouts.push_back(
        DefaultLayout(model->get_results()[i]->get_layout(), model->output(i).get_partial_shape()));
    if (const OvmsLayout* layout = FindSetting(config.layouts, names.outputs[i], false)) {
      changed = true;
      applied.output_layouts.back() = layout->tensor;
      output.tensor().set_layout(ov::Layout(layout->tensor));
      output.model().set_layout(ov::Layout(layout->model.empty() ? layout->tensor : layout->model));
    }
    if (const std::string* precision = FindSetting(config.precisions, names.outputs[i], false)) {
      const auto wanted = ElementTypeByName(*precision);
      if (!wanted) return SettingError("precision", "'" + *precision + "' is not known");
      changed = true;
      output.tensor().set_element_type(*wanted);
    }
  }
  if (changed) model = processor.build();
  return OkStatus();
}

// Returns the position of the batch in a client's tensor; nullopt when the layout has none.
std::optional<size_t> BatchIndex(const std::string& layout_text, const ov::PartialShape& shape) {
  const ov::Layout layout(layout_text);
  if (!ov::layout::has_batch(layout)) return std::nullopt;
  int64_t index = ov::layout::batch_idx(layout);
  if (index < 0) index += shape.rank().get_length();
  if (index < 0 || index >= shape.rank().get_length()) return std::nullopt;
  return static_cast<size_t>(index);
}

// Returns the shape that the settings give an input; nullopt when they give none.
Result<std::optional<ov::PartialShape>> WantedShape(const OvmsModelConfig& config, const PortNames& names,
                                                    bool only, const std::string& layout,
                                                    const ov::PartialShape& shape) {
  std::optional<ov::PartialShape> wanted;
  if (const OvmsShape* setting = FindSetting(config.shapes, names, only)) {
    if (setting->automatic) {
      if (shape.rank().is_dynamic()) {
        return FaultError(Fault::kReshapeError, "shape of input '" + names.name +
                                                    "' cannot be auto: the model does not define its rank");
      }
      wanted = ov::PartialShape::dynamic(shape.rank());
      return wanted;
    }
    wanted.emplace();
    for (const DimensionRange& range : setting->dimensions) wanted->push_back(ToDimension(range));
    return wanted;
  }
  const bool given = config.batch_size && (config.batch_size->automatic || config.batch_size->size.max != 0);
  if (!given || shape.rank().is_dynamic()) return wanted;
  if (const auto index = BatchIndex(layout, shape)) {
    wanted = shape;
    (*wanted)[*index] =
        config.batch_size->automatic ? ov::Dimension::dynamic() : ToDimension(config.batch_size->size);
  }
  return wanted;
}

Status Reshape(const OvmsModelConfig& config, const ModelNames& names, AppliedSettings& applied,
               ov::Model& model) {
  std::map<size_t, ov::PartialShape> shapes;
  std::string text;
  for (size_t i = 0; i < names.inputs.size(); ++i) {
    const ov::PartialShape shape = model.input(i).get_partial_shape();
    BRAID_ASSIGN_OR_RETURN(auto wanted, WantedShape(config, names.inputs[i], names.inputs.size() == 1,
                                                    applied.input_layouts[i], shape));
    if (!wanted || *wanted == shape) continue;
    text += (text.empty() ? "" : ", ") + names.inputs[i].name + " " + ToSettingText(*wanted);
    shapes.emplace(i, *std::move(wanted));
  }
  if (shapes.empty()) return OkStatus();
  return Guarded([&] { model.reshape(shapes); },
                 [&](const std::string& what) {
                   return FaultError(Fault::kReshapeError, "inputs " + text + ": " + what);
                 });
}

bool IsAutomatic(const OvmsModelConfig& config) {
  if (config.batch_size && config.batch_size->automatic && config.shapes.empty()) return true;
  return std::any_of(config.shapes.begin(), config.shapes.end(),
                     [](const auto& entry) { return entry.second.automatic; });
}

}  // namespace

Result<AppliedSettings> ApplySettings(const OvmsModelConfig& config, const ModelNames& names,
                                      std::shared_ptr<ov::Model>& model) {
  AppliedSettings applied;
  BRAID_RETURN_IF_ERROR(CheckNames("shape", config.shapes, names.inputs, nullptr));
  BRAID_RETURN_IF_ERROR(CheckNames("layout", config.layouts, names.inputs, &names.outputs));
  BRAID_RETURN_IF_ERROR(CheckNames("precision", config.precisions, names.inputs, &names.outputs));
  Status preprocessed;
  BRAID_RETURN_IF_ERROR(Guarded([&] { preprocessed = Preprocess(config, names, model, applied); },
                                [](const std::string& what) {
                                  return SettingError("layout, precision, mean, scale or color_format", what);
                                }));
  BRAID_RETURN_IF_ERROR(preprocessed);
  applied.automatic = IsAutomatic(config);
  BRAID_RETURN_IF_ERROR(Reshape(config, names, applied, *model));
  return applied;
}

}  // namespace braid
