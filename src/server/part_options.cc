#include "server/part_options.h"

#include <algorithm>
#include <filesystem>
#include <thread>

#include "config/config_json.h"
#include "server/options_python.h"

namespace braid {

std::vector<std::string> ExtensionNames(const ServerOptions& options) {
  // OpenVINO Model Server names none.
  if (options.model_repositories.empty()) return {};
  return {"classification",
          "sequence",
          "model_repository",
          "schedule_policy",
          "model_configuration",
          "system_shared_memory",
          "cuda_shared_memory",
          "binary_tensor_data",
          "parameters",
          "statistics",
          "logging",
          "trace"};
}

std::vector<std::string> RootsOfErrors(const ServerOptions& options) {
  std::vector<std::filesystem::path> folders(options.model_repositories.begin(),
                                             options.model_repositories.end());
  if (!options.config_path.empty()) {
    folders.push_back(std::filesystem::absolute(options.config_path).parent_path());
  }
  folders.emplace_back(options.backend_directory);
  std::vector<std::string> roots;
  for (const auto& folder : folders) {
    std::error_code error;
    roots.push_back(std::filesystem::absolute(folder, error).lexically_normal().string());
    roots.push_back(std::filesystem::weakly_canonical(folder, error).string());
  }
  return roots;
}

Result<ManagerOptions> MakeManagerOptions(const ServerOptions& options) {
  ManagerOptions manager;
  manager.exit_timeout_seconds = static_cast<int>(options.exit_timeout_secs);
  manager.load_thread_count = static_cast<int>(options.model_load_thread_count);
  if (!options.model_repositories.empty()) {
    FolderOptions& folders = manager.folders.emplace();
    folders.temporary_directory = TemporaryDirectory(ProcessEnvironment());
    folders.model_repositories = options.model_repositories;
    folders.control_mode = options.model_control_mode;
    folders.startup_models = options.startup_models;
    folders.poll_seconds = static_cast<int>(options.repository_poll_secs);
    folders.allow_file_overrides = options.allow_file_overrides;
    folders.model_config_name = options.model_config_name;
    folders.auto_complete = options.auto_complete_config;
    folders.strict_readiness = options.strict_readiness;
    folders.load_retry_count = static_cast<int>(options.model_load_retry_count);
    folders.backend_directory = options.backend_directory;
  }
  if (options.serves_config()) {
    ConfigOptions& config = manager.config.emplace();
    if (options.config_path.empty()) {
      std::error_code error;
      const std::filesystem::path here = std::filesystem::current_path(error);
      BRAID_ASSIGN_OR_RETURN(config.single_model,
                             ModelConfigFromOptions(options.model_settings, here.string()));
    } else {
      config.config_path = options.config_path;
    }
    config.poll_seconds = static_cast<int>(options.file_system_poll_wait_seconds);
    config.watch_graph_files = options.watch_graph_files;
  }
  return manager;
}

GrpcServer::Options MakeGrpcOptions(const ServerOptions& options) {
  GrpcServer::Options grpc;
  grpc.address = options.grpc_address;
  grpc.port = static_cast<int>(options.grpc_port);
  grpc.reuse_port = options.reuse_grpc_port;
  // Two that wait on the queues of one small machine wake each other up for every call.
  grpc.infer_threads = options.grpc_infer_thread_count > 0
                           ? static_cast<int>(options.grpc_infer_thread_count)
                           : std::max(1, static_cast<int>(std::thread::hardware_concurrency() / 2));
  grpc.load_threads = static_cast<int>(options.model_load_thread_count);
  grpc.use_ssl = options.grpc_use_ssl;
  grpc.ssl_mutual = options.grpc_use_ssl_mutual;
  grpc.server_cert_file = options.grpc_server_cert;
  grpc.server_key_file = options.grpc_server_key;
  grpc.root_cert_file = options.grpc_root_cert;
  switch (options.grpc_infer_response_compression_level) {
    case GrpcCompression::kNone:
      grpc.infer_response_compression = GrpcServer::Compression::kNone;
      break;
    case GrpcCompression::kLow:
      grpc.infer_response_compression = GrpcServer::Compression::kLow;
      break;
    case GrpcCompression::kMedium:
      grpc.infer_response_compression = GrpcServer::Compression::kMedium;
      break;
    case GrpcCompression::kHigh:
      grpc.infer_response_compression = GrpcServer::Compression::kHigh;
      break;
  }
  grpc.keepalive_time_ms = static_cast<int>(options.grpc_keepalive_time_ms);
  grpc.keepalive_timeout_ms = static_cast<int>(options.grpc_keepalive_timeout_ms);
  grpc.keepalive_permit_without_calls = options.grpc_keepalive_permit_without_calls;
  grpc.http2_max_pings_without_data = static_cast<int>(options.grpc_http2_max_pings_without_data);
  grpc.http2_min_recv_ping_interval_without_data_ms =
      static_cast<int>(options.grpc_http2_min_recv_ping_interval_without_data_ms);
  grpc.http2_max_ping_strikes = static_cast<int>(options.grpc_http2_max_ping_strikes);
  grpc.max_connection_age_ms = static_cast<int>(options.grpc_max_connection_age_ms);
  grpc.max_connection_age_grace_ms = static_cast<int>(options.grpc_max_connection_age_grace_ms);
  grpc.header_forward_pattern = options.grpc_header_forward_pattern;
  grpc.channel_arguments = options.grpc_channel_arguments;
  return grpc;
}

HttpServer::Options MakeHttpOptions(const ServerOptions& options) {
  HttpServer::Options http;
  http.address = options.http_address;
  http.port = static_cast<uint16_t>(options.http_port);
  http.reuse_port = options.reuse_http_port;
  http.threads = static_cast<int>(options.http_thread_count);
  http.max_input_bytes = options.http_max_input_size;
  http.header_forward_pattern = options.http_header_forward_pattern;
  http.allowed_origins = options.allowed_origins;
  http.allowed_hosts = options.allowed_hosts;
  http.config_to_json = ConfigToJson;
  return http;
}

}  // namespace braid
