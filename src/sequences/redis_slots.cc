#include "sequences/redis_slots.h"

#include <charconv>
#include <string>
#include <utility>

namespace braid {
namespace {

// The host of a node that announces no name.
constexpr std::string_view kNoName = "?";

// CRC-16/XMODEM.
uint16_t Crc16(std::string_view text) {
  uint32_t crc = 0;
  for (const char c : text) {
    crc ^= static_cast<uint32_t>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1;
  }
  return static_cast<uint16_t>(crc);
}

bool IsNumber(const RedisReply& reply, int64_t first, int64_t last) {
  return reply.kind == RedisReply::Kind::kNumber && reply.number >= first && reply.number <= last;
}

// Reads the address of a node, [host, port, id, [other attributes, ...]].
std::optional<client::Address> ReadNode(const RedisReply& node, const client::Address& asked) {
  if (node.list.size() < 2 || !IsNumber(node.list[1], 1, 65535)) return std::nullopt;
  client::Address address{node.list[0].text, std::to_string(node.list[1].number)};
  if (address.host == kNoName) {
    address.host.clear();
    const size_t known = node.list.size() > 3 ? node.list[3].list.size() : 0;
    for (size_t i = 0; i + 1 < known; i += 2) {
      if (node.list[3].list[i].text == "ip") address.host = node.list[3].list[i + 1].text;
    }
  }
  if (address.host.empty()) address.host = asked.host;
  return address;
}

}  // namespace

size_t RedisSlotOf(std::string_view key) {
  if (const size_t open = key.find('{'); open != std::string_view::npos) {
    const size_t close = key.find('}', open);
    if (close != std::string_view::npos && close > open + 1) key = key.substr(open + 1, close - open - 1);
  }
  return Crc16(key) % kRedisSlots;
}

Result<std::vector<RedisSlotRange>> ReadRedisSlots(const RedisReply& reply, const client::Address& asked) {
  if (reply.kind == RedisReply::Kind::kError) {
    return UnavailableError("it refuses CLUSTER SLOTS: " + ShownError(reply));
  }
  constexpr int64_t kLast = kRedisSlots - 1;
  std::vector<RedisSlotRange> ranges;
  for (const RedisReply& range : reply.list) {
    const bool right = range.list.size() >= 3 && IsNumber(range.list[0], 0, kLast) &&
                       IsNumber(range.list[1], range.list[0].number, kLast);
    auto master = right ? ReadNode(range.list[2], asked) : std::nullopt;
    if (!master) return UnavailableError("it sent a malformed reply to CLUSTER SLOTS");
    ranges.push_back({static_cast<size_t>(range.list[0].number), static_cast<size_t>(range.list[1].number),
                      std::move(*master)});
  }
  if (ranges.empty()) return UnavailableError("its reply to CLUSTER SLOTS has no slots");
  return ranges;
}

std::optional<RedisRedirect> ReadRedisRedirect(std::string_view error, const client::Address& asked) {
  RedisRedirect redirect;
  const size_t first = error.find(' ');
  if (first == std::string_view::npos) return std::nullopt;
  redirect.asks = error.substr(0, first) == "ASK";
  if (!redirect.asks && error.substr(0, first) != "MOVED") return std::nullopt;
  const size_t second = error.find(' ', first + 1);
  // An IPv6 address has no brackets here.
  const size_t colon = error.rfind(':');
  if (second == std::string_view::npos || colon == std::string_view::npos || colon < second) {
    return std::nullopt;
  }
  const auto number = [](std::string_view text, size_t most) -> std::optional<size_t> {
    size_t value = 0;
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (wrong != std::errc() || end != text.data() + text.size() || value > most) return std::nullopt;
    return value;
  };
  const auto slot = number(error.substr(first + 1, second - first - 1), kRedisSlots - 1);
  const auto port = number(error.substr(colon + 1), 65535);
  if (!slot || !port || *port == 0) return std::nullopt;
  redirect.slot = *slot;
  redirect.to = {std::string(error.substr(second + 1, colon - second - 1)), std::to_string(*port)};
  if (redirect.to.host.empty() || redirect.to.host == kNoName) redirect.to.host = asked.host;
  return redirect;
}

}  // namespace braid
