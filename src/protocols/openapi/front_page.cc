#include "protocols/openapi/front_page.h"

#include <algorithm>
#include <vector>

#include "base/json.h"

namespace braid {
namespace {

bool IsOfHost(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("-.:[]").find(c) != std::string_view::npos;
}

// All texts are the program's own except the console's address, which has no characters special to HTML.
std::string Html(const std::vector<const PortRoute*>& routes, const std::string& console, bool described) {
  std::string page =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\"><title>Braid</title>"
      "<h1>Braid</h1><p>An inference server.</p><ul>";
  if (!console.empty())
    page += "<li><a href=\"" + console + "\">The console</a> shows what the server does.</li>";
  if (described) {
    page += "<li><a href=\"" + std::string(kOpenApiPath) +
            "\">The OpenAPI document</a> describes the routes of this port.</li>";
  }
  page += "</ul>";
  if (routes.empty()) return page + "<p>The routes of this port require a token.</p></html>";
  page += "<h2>Routes of this port that you may use</h2><table>";
  for (const PortRoute* route : routes) {
    const bool link = route->method == "GET" && route->path.find('{') == std::string::npos;
    page += "<tr><td>" + route->method + "<td>" +
            (link ? "<a href=\"" + route->path + "\">" + route->path + "</a>" : route->path) + "<td>" +
            route->summary;
  }
  return page + "</table></html>";
}

}  // namespace

std::string ConsoleUrl(const ConsolePort& port, std::string_view host) {
  std::string endpoint = port.endpoint;
  for (const std::string_view all : {"0.0.0.0:", "[::]:"}) {
    if (!endpoint.starts_with(all)) continue;
    const size_t colon = host.rfind(':');
    if (colon != host.npos && host.find(']', colon) == host.npos) host = host.substr(0, colon);
    if (host.empty() || !std::ranges::all_of(host, IsOfHost)) host = "localhost";
    endpoint = std::string(host) + ":" + endpoint.substr(all.size());
  }
  return port.scheme + "://" + endpoint + "/console/";
}

HttpResponse FrontPage(const PortDescription& port, const std::string& console, bool html,
                       const std::function<bool(Api)>& may) {
  std::vector<const PortRoute*> routes;
  bool described = false;
  for (const PortRoute& route : port.routes) {
    if (!may(route.api)) continue;
    if (route.path == kOpenApiPath) {
      described = true;
    } else {
      routes.push_back(&route);
    }
  }
  HttpResponse response;
  if (html) {
    response.content_type = "text/html; charset=utf-8";
    response.body = Html(routes, console, described);
  } else {
    Json json = {{"name", "Braid"}, {"routes", Json::array()}};
    if (described) {
      json["version"] = port.version;
      json["openapi"] = kOpenApiPath;
    }
    if (!console.empty()) json["console"] = console;
    for (const PortRoute* route : routes) {
      json["routes"].push_back(
          {{"method", route->method}, {"path", route->path}, {"summary", route->summary}});
    }
    response = JsonResponse(DumpJson(json));
  }
  response.headers = {
      {"Cache-Control", "no-store"},
      {"Vary", "Accept"},
      {"Content-Security-Policy", "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"}};
  return response;
}

}  // namespace braid
