#include "tracing/trace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/json.h"

namespace braid {
namespace {

// Returns 0, or errno.
int WriteAll(int fd, std::string_view text, int64_t at) {
  while (!text.empty()) {
    const ssize_t written = pwrite(fd, text.data(), text.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<size_t>(written));
    at += written;
  }
  return 0;
}

// Readable only for the server's user, because it may contain tensors. An existing file keeps its mode.
UniqueFd Create(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
}

void AppendObject(const Json& object, std::string& text) {
  if (!text.empty()) text += ',';
  text += DumpJson(object);
}

}  // namespace

std::string TraceAsJson(const FinishedTrace& trace) {
  // In the order in which they happen.
  static constexpr TraceActivity kOrder[] = {
      TraceActivity::kReceiveStart,       TraceActivity::kReceiveEnd,   TraceActivity::kRequestStart,
      TraceActivity::kQueueStart,         TraceActivity::kComputeStart, TraceActivity::kComputeInputEnd,
      TraceActivity::kComputeOutputStart, TraceActivity::kComputeEnd,   TraceActivity::kRequestEnd,
      TraceActivity::kSendStart,          TraceActivity::kSendEnd};
  std::string text;
  for (const TraceRecord& record : trace.records) {
    Json about = {{"id", record.id}, {"model_name", record.model}, {"model_version", record.version}};
    if (!record.request_id.empty()) about["request_id"] = record.request_id;
    if (record.parent_id != 0) about["parent_id"] = record.parent_id;
    AppendObject(about, text);
    Json times = Json::array();
    for (TraceActivity activity : kOrder) {
      if (record.time(activity) == 0) continue;
      times.push_back({{"name", TraceActivityName(activity, trace.protocol)}, {"ns", record.time(activity)}});
    }
    if (trace.timestamps) AppendObject({{"id", record.id}, {"timestamps", std::move(times)}}, text);
    for (const TracedTensor& tensor : record.tensors) {
      Json contents = {{"name", tensor.name},
                       {"data", TensorText(tensor)},
                       {"shape", ShapeText(tensor.shape)},
                       {"dtype", WireName(tensor.type)}};
      if (tensor.truncated) contents["truncated"] = true;
      AppendObject({{"id", record.id},
                    {"activity", TraceTensorKindName(tensor.kind)},
                    {"tensor", std::move(contents)}},
                   text);
    }
  }
  return text;
}

void TraceFile::Write(std::vector<FinishedTrace> traces) {
  for (const FinishedTrace& trace : traces) {
    const std::string text = TraceAsJson(trace);
    if (trace.log_frequency == 0) {
      Append(text);
      continue;
    }
    Waiting& waiting = waiting_[trace.scope];
    if (!waiting.text.empty()) waiting.text += ",\n";
    waiting.text += text;
    if (++waiting.count >= trace.log_frequency || trace.last) WriteIndexed(waiting);
  }
}

void TraceFile::Flush(uint64_t scope) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (scope != 0 && it->first != scope) {
      ++it;
      continue;
    }
    if (it->second.count > 0) WriteIndexed(it->second);
    it = waiting_.erase(it);
  }
}

void TraceFile::OnDropped(uint64_t count) {
  BRAID_LOG_WARNING(log_, "{} traces dropped: they arrive faster than '{}' is written", count, path_);
}

void TraceFile::Append(const std::string& text) {
  const bool first = !file_.valid();
  if (first) {
    file_ = Create(path_);
    if (!file_.valid()) return Complain(path_, errno);
  }
  const std::string chunk = (first ? "[" : ",\n") + text + "]";
  if (int error = WriteAll(file_.get(), chunk, end_); error != 0) return Complain(path_, error);
  end_ += static_cast<int64_t>(chunk.size()) - 1;
}

void TraceFile::WriteIndexed(Waiting& waiting) {
  const std::string path = path_ + "." + std::to_string(next_index_++);
  const std::string text = "[" + waiting.text + "]";
  waiting = {};
  const UniqueFd file = Create(path);
  if (!file.valid()) return Complain(path, errno);
  if (int error = WriteAll(file.get(), text, 0); error != 0) Complain(path, error);
}

void TraceFile::Complain(const std::string& path, int error) {
  // Otherwise a full disk would fill the log as well.
  if (failed_) return;
  failed_ = true;
  BRAID_LOG_ERROR(log_, "cannot write traces to '{}': {}; further failures are not reported", path,
                  std::strerror(error));
}

}  // namespace braid
