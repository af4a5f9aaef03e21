#include "config/without_effect.h"

namespace braid {
namespace {

constexpr FieldWithoutEffect kModelFields[] = {
    {"optimization.graph", "", "'graph' has no effect: OpenVINO optimizes the model itself", "leave it out"},
    {"optimization.priority", "", "'priority' has no effect", "leave it out"},
    {"optimization.cuda", "", "'cuda' has no effect: no backend uses it", "leave it out"},
    {"optimization.execution_accelerators", "", "'execution_accelerators' has no effect",
     "leave it out; 'parameters' of an OpenVINO model are properties of the device"},
    {"optimization.input_pinned_memory", "", "'input_pinned_memory' has no effect", "leave it out"},
    {"optimization.output_pinned_memory", "", "'output_pinned_memory' has no effect", "leave it out"},
    {"optimization.gather_kernel_buffer_threshold", "",
     "'gather_kernel_buffer_threshold' has no effect: tensors are not gathered", "leave it out"},
    {"optimization.eager_batching", "", "'eager_batching' has no effect", "leave it out"},
    {"cc_model_filenames", "", "'cc_model_filenames' has no effect: the same file runs on each device",
     "leave it out"},
    {"model_operations", "", "'model_operations' has no effect",
     "load custom operators with --cpu_extension"},
    {"batch_input", "", "'batch_input' has no effect: no backend supports such tensors", "leave it out"},
    {"batch_output", "", "'batch_output' has no effect: no backend supports such tensors", "leave it out"},
    {"input.is_non_linear_format_io", "true", "'is_non_linear_format_io' has no effect", "leave it out"},
    {"output.is_non_linear_format_io", "true", "'is_non_linear_format_io' has no effect", "leave it out"},
    {"instance_group.secondary_devices", "",
     "'secondary_devices' does not place instances; only the model reads it", ""},
    {"instance_group.profile", "", "'profile' has no effect: only TensorRT uses it", "leave it out"},
    {"instance_group.host_policy", "", "'host_policy' has no effect", "leave it out"},
    {"instance_group.rate_limiter", "", "'rate_limiter' has no effect unless the server limits rates",
     "serve with --rate-limit=execution_count", EffectBy::kRateLimit},
    {"response_cache.enable", "true", "'response_cache' has no effect unless the server has a cache",
     "serve with --cache-config=local,size=BYTES", EffectBy::kCache},
};

constexpr FieldWithoutEffect kGraphFields[] = {
    {"num_threads", "", "'num_threads' is checked but has no effect: the server manages its threads",
     "leave it out"},
    {"executor", "", "'executor' is checked but has no effect: the server manages its threads",
     "leave it out"},
    {"max_queue_size", "", "'max_queue_size' has no effect", "leave it out"},
    {"node.executor", "", "'executor' is checked but has no effect: the server manages its threads",
     "leave it out"},
    {"node.max_in_flight", "", "'max_in_flight' is checked but has no effect: the server manages its threads",
     "leave it out"},
    {"node.node_options.service_url", "", "'service_url' has no effect: the servable is in this server",
     "leave it out"},
    {"node.node_options.server_config", "", "'server_config' has no effect: the servable is in this server",
     "leave it out"},
};

}  // namespace

std::span<const FieldWithoutEffect> ModelFieldsWithoutEffect() { return kModelFields; }
std::span<const FieldWithoutEffect> GraphFieldsWithoutEffect() { return kGraphFields; }

}  // namespace braid
