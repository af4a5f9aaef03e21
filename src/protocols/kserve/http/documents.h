// The JSON documents of the KServe v2 HTTP protocol other than inference: pure functions between text and our
// own types.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "protocols/inference/context.h"
#include "serving/catalog.h"
#include "serving/model_control.h"
#include "serving/servable.h"

namespace braid {

std::string ServerMetadataJson(const ProtocolContext& context);
// `versions`: the ready ones.
std::string ModelMetadataJson(const ServableInfo& info, std::span<const int64_t> versions);
std::string StatisticsJson(std::span<const std::shared_ptr<Servable>> servables);
std::string RepositoryIndexJson(std::span<const IndexEntry> index);
std::string LoggingJson(const Logger& log);

// The body of a repository index request: whether only ready models are asked for. May be empty.
Result<bool> ReadIndexRequest(std::string_view body);
// The body of a load request; may be empty.
Result<LoadRequest> ReadLoadRequest(std::string model_name, std::string_view body);
// The body of an unload request: whether the models that an ensemble uses go too. May be empty.
Result<bool> ReadUnloadRequest(std::string_view body);
// Changes the settings that the body of POST /v2/logging names; none when one of them is wrong.
Status ChangeLogging(std::string_view body, Logger& log);

}  // namespace braid
