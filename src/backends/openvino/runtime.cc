#include "backends/openvino/runtime.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "backends/openvino/element_types.h"
#include "backends/openvino/exposed_operations.h"
#include "backends/openvino/matrix_guard.h"
#include "backends/openvino/openvino_errors.h"
#include "backends/openvino/passed_inputs.h"
#include "backends/openvino/string_operations.h"
#include "serving/faults.h"

namespace braid {
namespace {

// Larger numbers are probably a mistake: each infer request has its own buffers.
constexpr uint32_t kMostInferRequests = 1024;

std::string Join(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "none" : list;
}

// An existing model file may still use operations that OpenVINO does not know.
Status ReadError(const ModelFile& file, const std::string& text) {
  const std::string who = std::string(FormatName(file.format)) + " '" + file.path + "' ";
  const bool is_read = text.find("No conversion rule") != std::string::npos ||
                       text.find("OpConversionFailure") != std::string::npos ||
                       text.find("unsupported opset") != std::string::npos;
  if (is_read) return UnsupportedError(who + "uses operations that OpenVINO does not support: " + text);
  // The core runs without the libraries that read models; Debian packages them separately.
  constexpr std::string_view kReaders = "Available frontends:";
  const size_t readers = text.find(kReaders);
  if (readers != std::string::npos &&
      text.find_first_not_of(" \n", readers + kReaders.size()) == std::string::npos) {
    return FaultError(Fault::kFileInvalid, who +
                                               "cannot be read: OpenVINO's libraries for models are not "
                                               "installed; on Debian, install the package braid-openvino");
  }
  return FaultError(Fault::kFileInvalid, who + "cannot be read: " + text);
}

// Returns why a request might crash `model`, or empty text if none can. `unknown` is the result of
// GuardStrings().
std::string Danger(const std::string& unknown, const ov::Model& model) {
  if (!unknown.empty()) return unknown + " is not known to be safe with strings";
  const std::string exposed = FindExposed(model);
  return exposed.empty()
             ? ""
             : exposed + " takes positions or counts from requests, which OpenVINO does not check";
}

// Devices that select among other devices.
bool IsVirtual(const std::string& device) {
  return device == "AUTO" || device == "MULTI" || device == "HETERO" || device == "BATCH";
}

}  // namespace

Result<ov::Core*> OpenVinoRuntime::Core() {
  MutexLock lock(mutex_);
  if (core_ != nullptr) return core_.get();
  std::unique_ptr<ov::Core> core;
  BRAID_RETURN_IF_ERROR(Guarded(
      [&] { core = std::make_unique<ov::Core>(); },
      [](const std::string& text) { return InternalError("OpenVINO could not be loaded: " + text); }));
  if (!extension_.empty()) {
    BRAID_RETURN_IF_ERROR(Guarded([&] { core->add_extension(extension_); },
                                  [&](const std::string& text) {
                                    return InvalidArgumentError("cpu_extension '" + extension_ +
                                                                "' cannot be used: " + text);
                                  }));
  }
  core_ = std::move(core);
  return core_.get();
}

Status OpenVinoRuntime::Load() { return Core().status(); }

Result<std::shared_ptr<ov::Model>> OpenVinoRuntime::Read(const ModelFile& file) {
  BRAID_ASSIGN_OR_RETURN(ov::Core * core, Core());
  std::shared_ptr<ov::Model> model;
  BRAID_RETURN_IF_ERROR(Guarded([&] { model = core->read_model(file.path); },
                                [&](const std::string& text) { return ReadError(file, text); }));
  return model;
}

Result<std::vector<std::string>> OpenVinoRuntime::Devices() {
  BRAID_ASSIGN_OR_RETURN(ov::Core * core, Core());
  std::vector<std::string> devices;
  BRAID_RETURN_IF_ERROR(
      Guarded([&] { devices = core->get_available_devices(); },
              [](const std::string& text) { return FaultError(Fault::kCannotCompileModel, text); }));
  return devices;
}

Status OpenVinoRuntime::CheckDevice(const std::string& device) {
  const std::string first = device.substr(0, device.find(':'));
  if (IsVirtual(first)) return OkStatus();
  BRAID_ASSIGN_OR_RETURN(const std::vector<std::string> devices, Devices());
  const bool known = std::any_of(devices.begin(), devices.end(), [&](const std::string& each) {
    return each == first || each.starts_with(first + ".") || first == each + ".0";
  });
  if (known && first == device) return OkStatus();
  return FaultError(Fault::kCannotCompileModel,
                    "target_device '" + device + "' not found; available devices: " + Join(devices));
}

Result<std::vector<std::string>> OpenVinoRuntime::Properties(const std::string& device) {
  BRAID_ASSIGN_OR_RETURN(ov::Core * core, Core());
  std::vector<std::string> names;
  BRAID_RETURN_IF_ERROR(Guarded(
      [&] {
        for (const ov::PropertyName& property : core->get_property(device, ov::supported_properties)) {
          if (property.is_mutable()) names.push_back(property);
        }
      },
      [](const std::string& text) { return InternalError(text); }));
  std::sort(names.begin(), names.end());
  return names;
}

Result<Compiled> OpenVinoRuntime::Compile(const std::shared_ptr<ov::Model>& model,
                                          const CompileOptions& options) {
  if (options.infer_requests > kMostInferRequests) {
    return InvalidArgumentError("nireq: " + std::to_string(options.infer_requests) +
                                " infer requests exceed the limit of " + std::to_string(kMostInferRequests));
  }
  BRAID_ASSIGN_OR_RETURN(ov::Core * core, Core());
  BRAID_RETURN_IF_ERROR(CheckDevice(options.device));
  ov::AnyMap properties = options.properties;
  if (options.use_cache && !cache_directory_.empty()) properties.emplace("CACHE_DIR", cache_directory_);
  Compiled compiled;
  std::string danger;
  BRAID_RETURN_IF_ERROR(Guarded(
      [&] {
        GuardMatrixProducts(*model);
        GuardPassedInputs(*model);
        const std::string unknown = GuardStrings(*model);
        if (contain_crashes_ && !options.trusted) danger = Danger(unknown, *model);
        if (!danger.empty()) return;
        compiled.model = core->compile_model(model, options.device, properties);
        compiled.infer_requests = options.infer_requests != 0
                                      ? options.infer_requests
                                      : compiled.model.get_property(ov::optimal_number_of_infer_requests);
        compiled.infer_requests = std::clamp<uint32_t>(compiled.infer_requests, 1, kMostInferRequests);
        const auto supported = compiled.model.get_property(ov::supported_properties);
        const auto tells = [&](const char* name) {
          return std::find(supported.begin(), supported.end(), name) != supported.end();
        };
        if (tells(ov::num_streams.name()))
          compiled.streams = compiled.model.get_property(ov::num_streams).num;
        if (tells(ov::hint::inference_precision.name())) {
          const ov::element::Type type = compiled.model.get_property(ov::hint::inference_precision);
          // In the accuracy mode, each operation has the type in the file.
          compiled.precision = type == ov::element::dynamic ? "FP32" : WireName(*FromElementType(type));
        }
      },
      [&](const std::string& text) {
        return FaultError(Fault::kCannotCompileModel, "target_device '" + options.device + "': " + text);
      }));
  if (!danger.empty()) return FaultError(Fault::kNeedsProcess, danger);
  return compiled;
}

std::unique_ptr<RequestSource> OpenVinoRuntime::MakeSource(const std::string& name, Compiled compiled,
                                                           std::shared_ptr<ov::Model> model,
                                                           CompileOptions options, Logger& log) {
  auto compile = [this, name, model, options = std::move(options), &log]() -> Result<ov::CompiledModel> {
    BRAID_LOG_WARNING(log, "recompiling model '{}' after a failed inference", name);
    BRAID_ASSIGN_OR_RETURN(Compiled again, Compile(model, options));
    return std::move(again.model);
  };
  return std::make_unique<RequestSource>(std::move(compiled.model), std::move(model), std::move(compile));
}

}  // namespace braid
