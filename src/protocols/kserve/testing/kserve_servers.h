// KServe's servers for tests of protocols, optionally with further protocols.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "protocols/grpc/server.h"
#include "protocols/http/server.h"
#include "protocols/inference/context.h"
#include "protocols/kserve/grpc/service.h"
#include "protocols/kserve/http/service.h"

namespace braid {

class KserveHttpServer {
 public:
  struct Options : HttpServer::Options {
    Options() { port = 0; }
    std::function<std::string(const inference::ModelConfig&)> config_to_json = {};
    // Protocols that get requests before KServe.
    std::vector<HttpProtocol*> others = {};
  };
  static Result<std::unique_ptr<KserveHttpServer>> Start(ProtocolContext& context, const Options& options) {
    auto self = std::make_unique<KserveHttpServer>(context, options);
    std::vector<HttpProtocol*> protocols = options.others;
    protocols.push_back(&self->kserve_);
    BRAID_ASSIGN_OR_RETURN(self->server_, HttpServer::Start(context.http_access, context.control,
                                                            std::move(protocols), options));
    return self;
  }
  KserveHttpServer(ProtocolContext& context, const Options& options)
      : kserve_(context, {options.max_input_bytes, options.config_to_json}) {}

  uint16_t bound_port() const { return server_->bound_port(); }
  void Shutdown(int64_t deadline_ns) { server_->Shutdown(deadline_ns); }

 private:
  KserveHttp kserve_;
  std::unique_ptr<HttpServer> server_;
};

class KserveGrpcServer {
 public:
  struct Options : GrpcServer::Options {
    Options() { infer_threads = 2; }
    int load_threads = 4;
    std::vector<GrpcProtocol*> others = {};
  };
  static Result<std::unique_ptr<KserveGrpcServer>> Start(ProtocolContext& context, const Options& options) {
    auto self = std::make_unique<KserveGrpcServer>(context, options);
    std::vector<GrpcProtocol*> protocols = options.others;
    protocols.push_back(&self->kserve_);
    BRAID_ASSIGN_OR_RETURN(
        self->server_, GrpcServer::Start({context.catalog, context.control, context.log, context.grpc_access},
                                         std::move(protocols), options));
    return self;
  }
  KserveGrpcServer(ProtocolContext& context, const Options& options)
      : kserve_(context, {options.load_threads}) {}

  int bound_port() const { return server_->bound_port(); }
  void Drain() { server_->Drain(); }
  void Shutdown(int64_t deadline_ns) { server_->Shutdown(deadline_ns); }

 private:
  KserveGrpc kserve_;
  std::unique_ptr<GrpcServer> server_;
};

}  // namespace braid
