#include "tracing/trace_settings.h"

#include <charconv>
#include <limits>
#include <tuple>
#include <utility>

#include "base/utf8.h"

namespace braid {
namespace {

// The limit for models with settings, because their names come over the network.
constexpr size_t kMostModels = 4096;

template <class T>
Status ParseNumber(const std::string& key, const std::string& text, T low, std::optional<T>& to) {
  T number{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range || (error == std::errc() && number < low)) {
    return InvalidArgumentError("Unable to parse '" + key + "', value is out of range [ " +
                                std::to_string(low) + ", " + std::to_string(std::numeric_limits<T>::max()) +
                                " ], got: " + Shortened(text));
  }
  if (error != std::errc() || end != text.data() + text.size()) {
    return InvalidArgumentError("Unable to parse '" + key + "', got: " + Shortened(text));
  }
  to = number;
  return OkStatus();
}

Status ParseLevel(const std::vector<std::string>& names, std::optional<std::pair<bool, bool>>& to) {
  std::pair<bool, bool> level{false, false};
  for (const std::string& name : names) {
    if (name == "TIMESTAMPS") {
      level.first = true;
    } else if (name == "TENSORS") {
      level.second = true;
    } else if (name == "OFF") {
      if (names.size() > 1) {
        return InvalidArgumentError("'trace_level' OFF can not be combined with other levels");
      }
    } else {
      return InvalidArgumentError("unknown trace level '" + Shortened(name) +
                                  "', expected OFF, TIMESTAMPS or TENSORS");
    }
  }
  to = level;
  return OkStatus();
}

}  // namespace

TraceSettingBook::TraceSettingBook(TraceSettings initial) : initial_(std::move(initial)) { Restart(global_); }

Status TraceSettingBook::Parse(const TraceChanges& changes, Overrides& overrides) {
  for (const auto& [key, values] : changes) {
    if (key == "trace_file") {
      return UnsupportedError("trace file location can not be updated through network protocol");
    }
    if (key == "trace_mode") {
      return UnsupportedError("trace mode can not be updated through network protocol");
    }
    if (key == "trace_level") {
      overrides.level.reset();
      if (values && !values->empty()) BRAID_RETURN_IF_ERROR(ParseLevel(*values, overrides.level));
      continue;
    }
    if (values && values->size() != 1) return InvalidArgumentError("expect only 1 value for '" + key + "'");
    const std::string* text = values ? &values->front() : nullptr;
    if (key == "trace_rate") {
      overrides.rate.reset();
      if (text) BRAID_RETURN_IF_ERROR(ParseNumber<uint32_t>(key, *text, 0, overrides.rate));
    } else if (key == "trace_count") {
      overrides.count.reset();
      if (text) BRAID_RETURN_IF_ERROR(ParseNumber<int64_t>(key, *text, -1, overrides.count));
    } else if (key == "log_frequency") {
      overrides.log_frequency.reset();
      if (text) BRAID_RETURN_IF_ERROR(ParseNumber<uint32_t>(key, *text, 0, overrides.log_frequency));
    } else {
      return InvalidArgumentError("unknown trace setting '" + Shortened(key) + "'");
    }
  }
  return OkStatus();
}

TraceSettings TraceSettingBook::Global() const {
  TraceSettings settings = initial_;
  const Overrides& set = global_.overrides;
  if (set.level) std::tie(settings.timestamps, settings.tensors) = *set.level;
  settings.rate = set.rate.value_or(settings.rate);
  settings.count = set.count.value_or(settings.count);
  settings.log_frequency = set.log_frequency.value_or(settings.log_frequency);
  return settings;
}

TraceSettings TraceSettingBook::Settings(const Scope& scope) const {
  TraceSettings settings = Global();
  if (&scope != &global_) {
    const Overrides& set = scope.overrides;
    if (set.level) std::tie(settings.timestamps, settings.tensors) = *set.level;
    settings.rate = set.rate.value_or(settings.rate);
    settings.count = set.count.value_or(settings.count);
    settings.log_frequency = set.log_frequency.value_or(settings.log_frequency);
  }
  return settings;
}

void TraceSettingBook::Restart(Scope& scope) {
  scope.id = ++last_scope_;
  scope.seen = 0;
  scope.remaining = Settings(scope).count;
}

TraceSettings TraceSettingBook::Get(const std::string& model) const {
  MutexLock lock(mutex_);
  auto found = models_.find(model);
  const Scope& scope = found == models_.end() ? global_ : found->second;
  TraceSettings settings = Settings(scope);
  settings.count = scope.remaining;
  return settings;
}

Status TraceSettingBook::Change(const std::string& model, const TraceChanges& changes, uint64_t* scope) {
  MutexLock lock(mutex_);
  auto found = models_.find(model);
  const bool own = found != models_.end();
  Overrides overrides;
  if (model.empty()) {
    overrides = global_.overrides;
  } else if (own) {
    overrides = found->second.overrides;
  }
  BRAID_RETURN_IF_ERROR(Parse(changes, overrides));
  Scope changed;
  changed.overrides = overrides;
  if (initial_.mode == "triton" && initial_.file.empty() && !Settings(changed).off()) {
    return InvalidArgumentError(
        "no trace file is set; start the server with --trace-config triton,file=FILE");
  }
  if (!model.empty() && !own && !overrides.empty() && models_.size() >= kMostModels) {
    return UnavailableError(std::to_string(kMostModels) +
                            " models already have trace settings; no more are accepted");
  }
  if (scope != nullptr) *scope = 0;
  if (model.empty()) {
    if (scope != nullptr) *scope = global_.id;
    global_.overrides = overrides;
    Restart(global_);
    // Models without a count get the current global one.
    if (changes.contains("trace_count")) {
      for (auto& [name, own_scope] : models_) {
        if (!own_scope.overrides.count) own_scope.remaining = global_.remaining;
      }
    }
    return OkStatus();
  }
  if (own) {
    if (scope != nullptr) *scope = found->second.id;
    models_.erase(found);
  }
  if (overrides.empty()) return OkStatus();
  Restart(models_.emplace(model, std::move(changed)).first->second);
  return OkStatus();
}

std::optional<TraceSample> TraceSettingBook::Sample(std::string_view model, std::optional<bool> wanted) {
  MutexLock lock(mutex_);
  auto found = models_.find(model);
  Scope& scope = found == models_.end() ? global_ : found->second;
  const TraceSettings settings = Settings(scope);
  if (settings.off() || wanted == false) return std::nullopt;
  TraceSample sample{scope.id, settings.timestamps, settings.tensors, settings.log_frequency, false};
  if (wanted) return sample;
  if (settings.rate == 0 || scope.remaining == 0 || ++scope.seen % settings.rate != 0) return std::nullopt;
  if (scope.remaining > 0) sample.last = --scope.remaining == 0;
  return sample;
}

bool TraceSettingBook::any_on() const {
  MutexLock lock(mutex_);
  if (!Settings(global_).off()) return true;
  for (const auto& [model, scope] : models_) {
    if (!Settings(scope).off()) return true;
  }
  return false;
}

}  // namespace braid
