#include "protocols/console/static_files.h"

#include <algorithm>
#include <string>

#include "protocols/net/compression.h"

namespace braid {
namespace {

constexpr size_t kShortestHash = 8;
// Larger than the whole page; limits the inflated size of a damaged file.
constexpr size_t kMostBytes = size_t{32} << 20;

// Scripts set styles of elements (CSSOM), which needs no exception here.
constexpr std::string_view kContentSecurityPolicy =
    "default-src 'self'; img-src 'self' data: blob:; media-src 'self' data: blob:; object-src 'none'; "
    "base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

std::string_view WithoutWeakness(std::string_view tag) { return tag.starts_with("W/") ? tag.substr(2) : tag; }

// Returns whether an If-None-Match header contains the tag. The tag is weak: both forms of a file, compressed
// or not, have the same one.
bool Names(std::string_view field, std::string_view tag) {
  while (!field.empty()) {
    const size_t comma = std::min(field.find(','), field.size());
    std::string_view one = field.substr(0, comma);
    field.remove_prefix(std::min(comma + 1, field.size()));
    while (one.starts_with(' ') || one.starts_with('\t')) one.remove_prefix(1);
    while (one.ends_with(' ') || one.ends_with('\t')) one.remove_suffix(1);
    if (one == "*" || WithoutWeakness(one) == tag) return true;
  }
  return false;
}

}  // namespace

bool HasHash(std::string_view path) {
  const size_t end = path.rfind('.');
  if (end == std::string_view::npos || end == 0) return false;
  const size_t begin = path.find_last_of(".-/", end - 1);
  if (begin == std::string_view::npos || path[begin] == '/') return false;
  const std::string_view hash = path.substr(begin + 1, end - begin - 1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return hash.size() >= kShortestHash && std::ranges::all_of(hash, [&](char c) {
           return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
         });
}

HttpResponse StaticFile(std::span<const ConsoleAsset> assets, std::string_view path, const HttpHead& head) {
  if (assets.empty()) return ErrorResponse(404, "this server was built without the console");
  if (path.empty()) path = "index.html";
  const auto asset = std::ranges::find(assets, path, &ConsoleAsset::path);
  if (asset == assets.end()) return ErrorResponse(404, "Not Found");
  HttpResponse response;
  response.content_type = asset->content_type;
  response.headers = {{"ETag", "W/" + std::string(asset->etag)},
                      {"Cache-Control", HasHash(path) ? "public, max-age=31536000, immutable" : "no-cache"},
                      {"Vary", "Accept-Encoding"},
                      {"Content-Security-Policy", std::string(kContentSecurityPolicy)},
                      {"X-Content-Type-Options", "nosniff"},
                      {"X-Frame-Options", "DENY"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cross-Origin-Resource-Policy", "same-origin"}};
  if (Names(FindHeader(head, "If-None-Match").value_or(""), asset->etag)) {
    response.status = 304;
    return response;
  }
  if (ChooseContentCoding(FindHeader(head, "Accept-Encoding").value_or("")) == ContentCoding::kGzip) {
    response.headers.emplace_back("Content-Encoding", "gzip");
    response.body = asset->gzip;
    return response;
  }
  Decompressor decompressor;
  const Status inflated = decompressor.Append(asset->gzip, response.body, kMostBytes);
  if (inflated.ok() && decompressor.finished()) return response;
  return ErrorResponse(500, "the console file is corrupt");
}

}  // namespace braid
