#include "check/config_rules.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/nearest_name.h"
#include "config/known_backends.h"
#include "config/without_effect.h"

namespace braid::check {
namespace {

constexpr std::string_view kConfiguration = "docs/compatibility.md#configuration-and-schedulers";
constexpr std::string_view kGpus = "docs/gpu.md#placement";
constexpr std::string_view kProcesses = "docs/compatibility.md#processes-and-environments";
constexpr std::string_view kWatchdogs = "docs/watchdogs.md#limits-for-user-code";
constexpr std::string_view kStateful = "docs/compatibility.md#openvino-model-server-stateful-models";
constexpr std::string_view kFromOvms = "docs/moving-from-ovms.md#what-is-different";
constexpr std::string_view kNotFromOvms = "docs/moving-from-ovms.md#what-is-refused-or-is-not-there-yet";

struct Rule {
  std::string_view id;
  std::string_view field;  // as WithoutIndexes() has it
  std::string_view value;  // "" for any
  Level level;
  std::string_view message;
  std::string_view advice;
  std::string_view page;
};

// A rule for a message also applies to its fields, and is reported once.
constexpr Rule kModelRules[] = {
    {"other-runtime", "backend", "onnxruntime", Level::kDifference,
     "OpenVINO runs the model, not ONNX Runtime", "compare its answers once", kProcesses},
    {"other-runtime", "backend", "tensorflow", Level::kDifference, "OpenVINO runs the model, not TensorFlow",
     "compare its answers once", kProcesses},
    {"other-runtime", "backend", "tflite", Level::kDifference, "OpenVINO runs the model, not TensorFlow Lite",
     "compare its answers once", kProcesses},
    {"other-runtime", "platform", "onnxruntime_onnx", Level::kDifference,
     "OpenVINO runs the model, not ONNX Runtime", "compare its answers once", kProcesses},
    {"other-runtime", "platform", "tensorflow_graphdef", Level::kDifference,
     "OpenVINO runs the model, not TensorFlow", "compare its answers once", kProcesses},
    {"other-runtime", "platform", "tensorflow_savedmodel", Level::kDifference,
     "OpenVINO runs the model, not TensorFlow", "compare its answers once", kProcesses},
    {"environment", "parameters[EXECUTION_ENV_PATH]", "", Level::kDifference,
     "scripts of the environment (bin/activate, activate.d, conda-unpack) are not run",
     "variables that 'activate' sets are set; set others in model.py", kProcesses},
    {"state-output", "sequence_batching.state", "", Level::kDifference,
     "a Python model can change the state: its output of that name is the new state; in Triton it can only "
     "read it",
     "", "docs/sequences.md#state-that-the-server-keeps"},
};

constexpr std::string_view kModelEntry = "/model_config_list/*/config";

constexpr Rule kOvmsRules[] = {
    {"works-here", "/model_config_list/*/config/precision", "", Level::kDifference,
     "'precision' works in a config.json; OpenVINO Model Server accepts it only on the command line", "",
     kFromOvms},
    {"works-here", "/model_config_list/*/config/mean", "", Level::kDifference,
     "'mean' works in a config.json; OpenVINO Model Server accepts it only on the command line", "",
     kFromOvms},
    {"works-here", "/model_config_list/*/config/scale", "", Level::kDifference,
     "'scale' works in a config.json; OpenVINO Model Server accepts it only on the command line", "",
     kFromOvms},
    {"works-here", "/model_config_list/*/config/color_format", "", Level::kDifference,
     "'color_format' works in a config.json; OpenVINO Model Server accepts it only on the command line", "",
     kFromOvms},
    {"own-key", "/model_config_list/*/config/allow_in_pipelines", "true", Level::kDifference,
     "'allow_in_pipelines' is specific to Braid: OpenVINO Model Server rejects files that have it", "",
     kStateful},
    {"own-key", "/model_config_list/*/config/isolate", "", Level::kDifference,
     "'isolate' is specific to Braid: OpenVINO Model Server rejects files that have it", "", kFromOvms},
    {"own-key", "/custom_node_library_config_list/*/isolate", "", Level::kDifference,
     "'isolate' is specific to Braid: OpenVINO Model Server rejects files that have it", "", kFromOvms},
    {"own-key", "/pipeline_config_list/*/allow_auto_shape", "true", Level::kDifference,
     "'allow_auto_shape' is specific to Braid: OpenVINO Model Server rejects files that have it", "",
     kFromOvms},
    {"own-key", "/pipeline_config_list/*/convert_precision", "true", Level::kDifference,
     "'convert_precision' is specific to Braid: OpenVINO Model Server rejects files that have it", "",
     kFromOvms},
    {"stateful", "/model_config_list/*/config/stateful", "true", Level::kDifference,
     "a request of a sequence that fails leaves the sequence as it was; in OpenVINO Model Server it can be "
     "stuck",
     "", kStateful},
};

struct FieldAdvice {
  std::string_view field;
  Level level;
  std::string_view advice;
  std::string_view page;
};

// The first match counts. A field also matches the fields in it.
constexpr FieldAdvice kAdvice[] = {
    {"name", Level::kError, "leave it out, or write the name of the folder", ""},
    {"backend", Level::kError, "write backend: \"python\", or \"openvino\"", kProcesses},
    {"platform", Level::kError, "write backend: \"python\", or \"openvino\"", kProcesses},
    {"max_batch_size", Level::kError, "write 0 for no batching, or the maximum batch size", ""},
    {"instance_group.kind", Level::kError,
     "write KIND_AUTO, which uses the CPU if there is no GPU, or serve with --gpu-fallback=cpu", kGpus},
    {"instance_group.gpus", Level::kError, "leave it out to use all GPUs", kGpus},
    {"input.dims", Level::kError, "write 1 or more for each dimension, or -1 for any size", ""},
    {"output.dims", Level::kError, "write 1 or more for each dimension, or -1 for any size", ""},
    {"input.data_type", Level::kError, "write one of Triton's types, such as TYPE_FP32", ""},
    {"output.data_type", Level::kError, "write one of Triton's types, such as TYPE_FP32", ""},
    {"input.is_shape_tensor", Level::kRefused, "leave it out", kConfiguration},
    {"output.is_shape_tensor", Level::kRefused, "leave it out", kConfiguration},
    {"output.label_filename", Level::kError, "put the file into the model's folder, beside config.pbtxt", ""},
    {"response_cache", Level::kError, "leave response_cache out", ""},
    {"dynamic_batching.preferred_batch_size", Level::kError, "write sizes from 1 to max_batch_size", ""},
    {"sequence_batching.oldest.preferred_batch_size", Level::kError, "write sizes from 1 to max_batch_size",
     ""},
    {"sequence_batching.state.use_same_buffer_for_input_output", Level::kRefused, "leave it out",
     kConfiguration},
    {"sequence_batching.state.use_growable_memory", Level::kRefused, "leave it out", kConfiguration},
    {"sequence_batching.state.initial_state", Level::kError,
     "put the file into the model's initial_state folder", ""},
    {"model_repository_agents", Level::kRefused,
     "leave it out, and do what the agent does before the server starts", kConfiguration},
    {"runtime", Level::kRefused, "leave it out: the backend's name is enough", kProcesses},
    {"ensemble_scheduling.step.model_namespace", Level::kRefused, "leave it out", kConfiguration},
    {"parameters[EXECUTION_ENV_PATH]", Level::kError,
     "name a folder or a packed archive; $$TRITON_MODEL_DIRECTORY stands for the model's folder",
     "docs/environments.md#what-can-be-named"},
    {"parameters[FORCE_CPU_ONLY_INPUT_TENSORS]", Level::kError, "write \"yes\" or \"no\"", kProcesses},
    {"parameters[WORKER_ISOLATION]", Level::kError, "write none, basic, strict or separate",
     "docs/isolation.md#levels"},
    {"parameters[EXECUTE_TIMEOUT_MS]", Level::kError, "write milliseconds as a string: \"2000\"", kWatchdogs},
    {"parameters[INITIALIZE_TIMEOUT_MS]", Level::kError, "write milliseconds as a string: \"60000\"",
     kWatchdogs},
    {"parameters[FINALIZE_TIMEOUT_MS]", Level::kError, "write milliseconds as a string: \"5000\"",
     kWatchdogs},
    {"parameters[WORKER_MEMORY_MAX_BYTES]", Level::kError, "write bytes as a string: \"4000000000\"",
     "docs/watchdogs.md#the-memory-of-a-model"},
    {"model_warmup", Level::kError, "put the data into the model's warmup folder", ""},
    {"version_policy", Level::kError, "name versions that exist", ""},
    {"default_model_filename", Level::kError, "write the name of a file in the version's folder", ""},
    {"/custom_loader_config_list", Level::kRefused, "leave it out, and put the models into folders",
     kNotFromOvms},
    {"/model_config_list/*/config/custom_loader_options", Level::kRefused,
     "leave it out, and put the model into a folder", kNotFromOvms},
};

bool Holds(std::string_view rule, std::string_view field, char separator) {
  if (!field.starts_with(rule)) return false;
  return field.size() == rule.size() || field[rule.size()] == separator;
}

// Parameters that the server or its Python workers know; a similar name is probably a typing error.
constexpr std::string_view kParameters[] = {"EXECUTION_ENV_PATH",
                                            "FORCE_CPU_ONLY_INPUT_TENSORS",
                                            "WORKER_ISOLATION",
                                            "EXECUTE_TIMEOUT_MS",
                                            "INITIALIZE_TIMEOUT_MS",
                                            "FINALIZE_TIMEOUT_MS",
                                            "WORKER_MEMORY_MAX_BYTES",
                                            "PINNED",
                                            "ANY_TENSORS"};

// Reports a key that is similar to a known one.
void CheckParameterName(const TextFile& file, const TextField& field, const std::string& servable,
                        Findings& findings) {
  constexpr std::string_view kHead = "parameters[";
  if (!field.path.starts_with(kHead) || !field.path.ends_with("].key")) return;
  const std::string_view key = field.value;
  if (std::ranges::find(kParameters, key) != std::end(kParameters)) return;
  NearestName nearest(key);
  for (const std::string_view known : kParameters) nearest.Offer(known);
  if (nearest.name().empty()) return;
  findings.Add({Level::kNote, "parameter-name", file.path(), field.at,
                "the server does not know the parameter '" + field.value + "'; only the model can use it",
                "did you mean '" + nearest.name() + "'?", std::string(kProcesses), servable});
}

}  // namespace

std::string WithoutIndexes(std::string_view path) {
  std::string plain;
  if (path.starts_with('/')) {
    for (size_t i = 0; i < path.size();) {
      const size_t end = std::min(path.find('/', i + 1), path.size());
      const std::string_view part = path.substr(i + 1, end - i - 1);
      const bool index = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
      plain.append("/").append(index ? "*" : part);
      i = end;
    }
    return plain;
  }
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '[') {
      const size_t end = path.find(']', i);
      if (end != std::string_view::npos && end > i + 1 &&
          path.substr(i + 1, end - i - 1).find_first_not_of("0123456789") == std::string_view::npos) {
        i = end;
        continue;
      }
    }
    plain += path[i];
  }
  return plain;
}

void ApplyModelRules(const TextFile& file, const std::string& servable, const RuleContext& context,
                     Findings& findings) {
  std::vector<Rule> rules(std::begin(kModelRules), std::end(kModelRules));
  for (const FieldWithoutEffect& each : ModelFieldsWithoutEffect()) {
    if ((each.unless == EffectBy::kRateLimit && context.rate_limited) ||
        (each.unless == EffectBy::kCache && context.has_cache))
      continue;
    rules.push_back({each.unless == EffectBy::kNothing ? "no-effect" : "needs-option", each.field, each.value,
                     Level::kNote, each.message, each.advice, kConfiguration});
  }
  const TextField* backend = file.fields().Find("backend");
  const bool user_code = backend == nullptr || RunsUserCode(backend->value);
  for (const TextField& field : file.fields().all()) {
    CheckParameterName(file, field, servable, findings);
    const std::string plain = WithoutIndexes(field.path);
    for (const Rule& rule : rules) {
      if (plain != rule.field || (!rule.value.empty() && rule.value != field.value)) continue;
      if (rule.id == "state-output" && !user_code) continue;
      // Reports only the first element of a list of scalars.
      if (field.path.ends_with("]") && !field.path.ends_with("[0]") && !field.value.empty()) continue;
      findings.Add({rule.level, std::string(rule.id), file.path(), field.name, std::string(rule.message),
                    std::string(rule.advice), std::string(rule.page), servable});
    }
  }
}

void ApplyOvmsRules(const std::string& path, const JsonFields& fields, Findings& findings) {
  for (const auto& [place, field] : fields.all()) {
    const std::string plain = WithoutIndexes(place);
    for (const Rule& rule : kOvmsRules) {
      if (plain != rule.field || (!rule.value.empty() && rule.value != field.value)) continue;
      std::string servable;
      const size_t depth = plain.starts_with(kModelEntry) ? place.find("/config/") + 7 : place.rfind('/');
      if (const JsonField* name = fields.Find(place.substr(0, depth) + "/name")) servable = name->value;
      findings.Add({rule.level, std::string(rule.id), path, field.name, std::string(rule.message),
                    std::string(rule.advice), std::string(rule.page), std::move(servable)});
    }
  }
}

FaultAdvice AdviceFor(std::string_view field) {
  const std::string plain = WithoutIndexes(field);
  const char separator = plain.starts_with('/') ? '/' : '.';
  for (const FieldAdvice& one : kAdvice) {
    if (Holds(one.field, plain, separator)) return {one.level, one.advice, one.page};
  }
  return {};
}

}  // namespace braid::check
