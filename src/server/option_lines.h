// Accessors for the lines of the option table: they parse a text into a field, and format the field as text,
// by kind of value. Shared by the files with such lines.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "base/status.h"
#include "server/options.h"
#include "server/options_address.h"
#include "server/options_table.h"

namespace braid::option_lines {

inline std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

inline Result<bool> ToBool(std::string_view text) {
  std::string lower = Lower(text);
  if (lower == "true" || lower == "1") return true;
  if (lower == "false" || lower == "0") return false;
  return InvalidArgumentError(fmt::format("'{}' is not a boolean (true, false, 1 or 0)", text));
}

template <class T>
Result<T> ToNumber(std::string_view text, T low, T high) {
  T number{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) {
    return InvalidArgumentError(fmt::format("'{}' is not a whole number", text));
  }
  if (error != std::errc() || number < low || number > high) {
    return InvalidArgumentError(high == std::numeric_limits<T>::max()
                                    ? fmt::format("{} is out of range, the minimum is {}", text, low)
                                    : fmt::format("{} is out of range {} to {}", text, low, high));
  }
  return number;
}

// The `set` and `show` functions of a line of the table, for one kind of value.
struct Access {
  Status (*set)(ServerOptions&, std::string_view);
  std::string (*show)(const ServerOptions&);
};

// A field of a part's options: the path of members from ServerOptions.
template <auto... kMembers>
struct FieldOfPart {
  template <class Options>
  static constexpr auto& In(Options& options) {
    return (options.*....*kMembers);
  }
};

// Returns the field of a line: a member of ServerOptions, or a FieldOfPart.
template <auto kField, class Options>
constexpr auto& Get(Options& options) {
  if constexpr (std::is_member_object_pointer_v<decltype(kField)>) {
    return options.*kField;
  } else {
    return kField.In(options);
  }
}

template <auto kField>
constexpr Access Bool() {
  return {[](ServerOptions& options, std::string_view text) {
            BRAID_ASSIGN_OR_RETURN(Get<kField>(options), ToBool(text));
            return OkStatus();
          },
          [](const ServerOptions& options) { return std::string(Get<kField>(options) ? "true" : "false"); }};
}

// A boolean option whose field has the opposite meaning.
template <auto kField>
constexpr Access Not() {
  return {[](ServerOptions& options, std::string_view text) {
            BRAID_ASSIGN_OR_RETURN(bool value, ToBool(text));
            Get<kField>(options) = !value;
            return OkStatus();
          },
          [](const ServerOptions& options) { return std::string(Get<kField>(options) ? "false" : "true"); }};
}

template <auto kField, int64_t kLow, int64_t kHigh = std::numeric_limits<int64_t>::max()>
constexpr Access Int() {
  return {[](ServerOptions& options, std::string_view text) {
            using T = std::remove_cvref_t<decltype(Get<kField>(options))>;
            BRAID_ASSIGN_OR_RETURN(const int64_t number, ToNumber<int64_t>(text, kLow, kHigh));
            if (!std::in_range<T>(number)) {
              return InvalidArgumentError(
                  fmt::format("{} is out of range {} to {}", text, kLow, std::numeric_limits<T>::max()));
            }
            Get<kField>(options) = static_cast<T>(number);
            return OkStatus();
          },
          [](const ServerOptions& options) { return std::to_string(Get<kField>(options)); }};
}

template <auto kField>
constexpr Access Bytes() {
  return {[](ServerOptions& options, std::string_view text) {
            BRAID_ASSIGN_OR_RETURN(Get<kField>(options),
                                   ToNumber<uint64_t>(text, 0, std::numeric_limits<uint64_t>::max()));
            return OkStatus();
          },
          [](const ServerOptions& options) { return std::to_string(Get<kField>(options)); }};
}

template <auto kField>
constexpr Access Text() {
  return {[](ServerOptions& options, std::string_view text) {
            Get<kField>(options) = std::string(text);
            return OkStatus();
          },
          [](const ServerOptions& options) { return Get<kField>(options); }};
}

// Listed addresses to listen on.
template <auto kField>
constexpr Access Addresses() {
  return {[](ServerOptions& options, std::string_view text) {
            BRAID_RETURN_IF_ERROR(CheckAddresses(text));
            return Text<kField>().set(options, text);
          },
          Text<kField>().show};
}

// Adds one element each time the option is given.
template <auto kField>
constexpr Access List() {
  return {
      [](ServerOptions& options, std::string_view text) {
        Get<kField>(options).emplace_back(text);
        return OkStatus();
      },
      [](const ServerOptions& options) { return fmt::format("{}", fmt::join(Get<kField>(options), ",")); }};
}

// Like List(), for "NAME=SECRET", shown as "NAME=...".
template <auto kField>
constexpr Access Secrets() {
  return {List<kField>().set, [](const ServerOptions& options) {
            std::string text;
            for (const std::string& one : Get<kField>(options))
              text += (text.empty() ? "" : ",") + one.substr(0, one.find('=')) + "=...";
            return text;
          }};
}

template <class T>
using Choices =
    std::array<std::pair<std::string_view, T>, 4>;  // size of the longest list; unused ones have no name

template <auto kField, const auto& kChoices>
constexpr Access OneOf() {
  return {[](ServerOptions& options, std::string_view text) {
            std::string names;
            for (const auto& [name, value] : kChoices) {
              if (name.empty()) continue;
              if (name == text) {
                Get<kField>(options) = value;
                return OkStatus();
              }
              names += (names.empty() ? "" : ", ") + std::string(name);
            }
            return InvalidArgumentError(fmt::format("'{}' is not one of {}", text, names));
          },
          [](const ServerOptions& options) {
            for (const auto& [name, value] : kChoices) {
              if (value == Get<kField>(options) && !name.empty()) return std::string(name);
            }
            return std::string();
          }};
}

// For options without a field, whose texts are still checked.
inline Status CheckBool(ServerOptions&, std::string_view text) { return ToBool(text).status(); }
inline Status CheckInt(ServerOptions&, std::string_view text) {
  return ToNumber<int64_t>(text, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max())
      .status();
}
inline Status CheckNothing(ServerOptions&, std::string_view) { return OkStatus(); }

using Group = OptionGroup;
constexpr OptionSupport kWorks = OptionSupport::kWorks;
using O = ServerOptions;
using H = HttpServer::Options;
using G = GrpcServer::Options;
using F = FolderOptions;
using A = AccessControl::Files;
using C = ConfigOptions;
using W = PythonBackend::Options;
// A message length has 32 bits.
inline constexpr int64_t kMostGrpcMessageBytes = 4294967295;
using SegmentLimits = SegmentBudget::Limits;
using Bounds = ModelBounds;
using Debugging = PythonBackend::Options::Debugging;
template <auto kMember>
inline constexpr FieldOfPart<&O::http, kMember> Http{};
template <auto kMember>
inline constexpr FieldOfPart<&O::grpc, kMember> Grpc{};
template <auto kMember>
inline constexpr FieldOfPart<&O::http_tls, kMember> HttpTls{};
template <auto kMember>
inline constexpr FieldOfPart<&O::grpc_tls, kMember> GrpcTls{};
template <auto... kMembers>
inline constexpr FieldOfPart<&O::limits, kMembers...> Limits{};
template <auto kMember>
inline constexpr FieldOfPart<&O::access_files, kMember> AccessFiles{};
template <auto kMember>
inline constexpr FieldOfPart<&O::folders, kMember> Folders{};
template <auto kMember>
inline constexpr FieldOfPart<&O::config, kMember> Config{};
template <auto... kMembers>
inline constexpr FieldOfPart<&O::workers, kMembers...> Workers{};

constexpr OptionSpec Works(std::string_view name, std::string_view value, Group group, Access access,
                           std::string_view help) {
  return {name, value, group, kWorks, false, help, "", "", "", access.set, access.show};
}
constexpr OptionSpec WorksMany(std::string_view name, std::string_view value, Group group, Access access,
                               std::string_view help) {
  OptionSpec spec = Works(name, value, group, access, help);
  spec.repeatable = true;
  return spec;
}

using Check = Status (*)(ServerOptions&, std::string_view);

constexpr OptionSpec Ignored(std::string_view name, std::string_view value, Group group, Check check,
                             std::string_view fixed_default, std::string_view help, std::string_view reason) {
  // Without a field, a repeated option does no harm.
  return {name, value, group, OptionSupport::kIgnored, true, help, reason, "", fixed_default, check, nullptr};
}
constexpr OptionSpec Refused(std::string_view name, std::string_view value, Group group, Check check,
                             std::string_view fixed_default, std::string_view inert, std::string_view help,
                             std::string_view reason) {
  return {name,          value, group,  OptionSupport::kRefused, true, help, reason, inert,
          fixed_default, check, nullptr};
}

}  // namespace braid::option_lines
