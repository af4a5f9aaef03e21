#include "protocols/openapi/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "protocols/openapi/front_page.h"
#include "protocols/openapi/openapi_route.h"

namespace braid {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kPart = R"({
  "tags": [{"name": "Things"}, {"name": "Others"}],
  "paths": {
    "/things/{model}": {
      "get": {
        "operationId": "thing",
        "tags": ["Things"],
        "summary": "A thing",
        "parameters": [{"name": "own", "in": "query", "schema": {"type": "string"}}],
        "responses": {
          "200": {"description": "It", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
          "403": {"description": "its own"}
        }
      }
    },
    "/others": {
      "post": {
        "operationId": "others",
        "tags": ["Others"],
        "summary": "Others",
        "responses": {"200": {"description": "They"}}
      }
    }
  },
  "components": {
    "schemas": {
      "Thing": {"type": "array", "items": {"$ref": "#/components/schemas/Inner"}},
      "Inner": {"type": "string"},
      "Unused": {"type": "string"}
    }
  }
})";

constexpr HttpRoute Route(std::string_view method, std::string_view pattern, Api api) {
  return {method, pattern, api, HttpScope::kNamed, nullptr};
}

const std::vector<HttpRoute> kRoutes{
    Route("GET", "/things/{m}", Api::kMetadata), Route("GET", "/things/{m}/versions/{v}", Api::kMetadata),
    Route("GET", "/things/{m}/labels/{l}", Api::kMetadata), Route("POST", "/others", Api::kHealth)};

Result<PortDescription> Make(const std::vector<HttpRoute>& routes, ApiSet served = ApiSet::All(),
                             bool tokens = false) {
  const OpenApiOptions options{
      .version = "7.8", .document_api = Api::kMetadata, .served = served, .has_tokens = tokens};
  return OpenApiDocument(options, {{kPart, routes}});
}

Json Made(ApiSet served = ApiSet::All(), bool tokens = false) {
  auto made = Make(kRoutes, served, tokens);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? Json::parse(made->document) : Json();
}

std::vector<std::string> Keys(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST(OpenApiDocumentTest, HasARouteUnderEachOfItsPaths) {
  const Json document = Made();
  EXPECT_EQ(document["info"]["version"], "7.8");
  EXPECT_THAT(
      Keys(document["paths"]),
      testing::UnorderedElementsAre("/openapi.json", "/things/{model}", "/things/{model}/versions/{version}",
                                    "/things/{model}/labels/{label}", "/others"));
  const Json& plain = document["paths"]["/things/{model}"]["get"];
  const Json& version = document["paths"]["/things/{model}/versions/{version}"]["get"];
  EXPECT_EQ(plain["operationId"], "thing");
  EXPECT_EQ(version["operationId"], "thingOfVersion");
  EXPECT_EQ(version["summary"], "A thing, of one version");
  EXPECT_EQ(document["paths"]["/things/{model}/labels/{label}"]["get"]["operationId"], "thingOfLabel");
  ASSERT_EQ(version["parameters"].size(), 3u);
  EXPECT_EQ(version["parameters"][0]["$ref"], "#/components/parameters/model");
  EXPECT_EQ(version["parameters"][1]["$ref"], "#/components/parameters/version");
  EXPECT_EQ(version["parameters"][2]["name"], "own");
}

TEST(OpenApiDocumentTest, AddsTheStatusesOfAllRoutes) {
  const Json document = Made();
  const Json& thing = document["paths"]["/things/{model}"]["get"];
  EXPECT_THAT(Keys(thing["responses"]), testing::ElementsAre("200", "400", "403", "431", "503"));
  EXPECT_EQ(thing["responses"]["403"]["description"], "its own");
  EXPECT_FALSE(thing.contains("security"));
  // Probes are answered in every phase of the server.
  EXPECT_THAT(Keys(document["paths"]["/others"]["post"]["responses"]),
              testing::ElementsAre("200", "403", "413", "431"));
}

TEST(OpenApiDocumentTest, TellsOfTokensWhereThereAreAny) {
  const Json document = Made(ApiSet::All(), true);
  EXPECT_EQ(document["security"], Json::parse(R"([{"token": []}])"));
  EXPECT_EQ(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
  EXPECT_TRUE(document["paths"]["/things/{model}"]["get"]["responses"].contains("401"));
  EXPECT_EQ(document["paths"]["/others"]["post"]["security"], Json::parse(R"([{}, {"token": []}])"));
  EXPECT_EQ(Made()["security"], Json::array());
  EXPECT_FALSE(Made()["components"].contains("securitySchemes"));
}

TEST(OpenApiDocumentTest, LeavesOutWhatThePortDoesNotServe) {
  const Json document = Made(ApiSet::Of({Api::kHealth}));
  EXPECT_THAT(Keys(document["paths"]), testing::ElementsAre("/others"));
  EXPECT_EQ(document["tags"], Json::parse(R"([{"name": "Others"}])"));
  EXPECT_FALSE(document["components"]["schemas"].contains("Thing"));
  const Json all = Made();
  EXPECT_TRUE(all["components"]["schemas"].contains("Inner"));
  EXPECT_FALSE(all["components"]["schemas"].contains("Unused"));
}

TEST(OpenApiDocumentTest, RoutesAndDescriptionsFitEachOther) {
  std::vector<HttpRoute> routes = kRoutes;
  HttpRoute refusing = Route("POST", "/refused", Api::kMetadata);
  refusing.kind = HttpRouteKind::kOnlyRefuses;
  routes.push_back(refusing);
  EXPECT_TRUE(Make(routes).ok());
  routes.push_back(Route("POST", "/things/{m}", Api::kMetadata));
  EXPECT_EQ(Make(routes).status().message(), "openapi: no part describes POST /things/{model}");
  routes = kRoutes;
  routes.pop_back();
  EXPECT_EQ(Make(routes).status().message(), "openapi: a part describes post /others, which has no route");
}

TEST(FrontPageTest, NamesTheRoutesThatTheSenderMayUse) {
  const auto made = Make(kRoutes);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto page = [&](bool html, const ApiSet& may) {
    return FrontPage(*made, "http://h:8002/console/", html, [&](Api api) { return may.Has(api); });
  };
  const HttpResponse all = page(false, ApiSet::All());
  EXPECT_EQ(all.content_type, "application/json");
  EXPECT_EQ(Json::parse(all.body), Json::parse(R"({
    "name": "Braid", "version": "7.8", "console": "http://h:8002/console/", "openapi": "/openapi.json",
    "routes": [{"method": "GET", "path": "/things/{model}", "summary": "A thing"},
               {"method": "POST", "path": "/others", "summary": "Others"}]})"));
  const Json some = Json::parse(page(false, ApiSet::Of({Api::kHealth})).body);
  EXPECT_EQ(some["routes"], Json::parse(R"([{"method": "POST", "path": "/others", "summary": "Others"}])"));
  EXPECT_FALSE(some.contains("openapi") || some.contains("version"));
  const HttpResponse html = page(true, ApiSet::All());
  EXPECT_EQ(html.content_type, "text/html; charset=utf-8");
  EXPECT_THAT(html.body, testing::HasSubstr(R"(<a href="http://h:8002/console/">)"));
  EXPECT_THAT(html.body, testing::HasSubstr(R"(<a href="/openapi.json">)"));
  EXPECT_THAT(html.body, testing::HasSubstr("<td>GET<td>/things/{model}<td>A thing"));
  EXPECT_THAT(page(true, ApiSet()).body, testing::Not(testing::HasSubstr("<table>")));
}

TEST(FrontPageTest, TheConsoleIsAtTheHostThatWasAskedFor) {
  const auto leads = [](const char* endpoint, const char* host) {
    return ConsoleUrl({"http", endpoint}, host);
  };
  EXPECT_EQ(leads("0.0.0.0:8002", "braid.example:8000"), "http://braid.example:8002/console/");
  EXPECT_EQ(leads("[::]:8002", "[::1]:8000"), "http://[::1]:8002/console/");
  EXPECT_EQ(leads("0.0.0.0:8002", "braid"), "http://braid:8002/console/");
  EXPECT_EQ(leads("10.0.0.1:8002", "braid:8000"), "http://10.0.0.1:8002/console/");
  for (const char* none : {"", "a\"><script>", "a/b", "a b"})
    EXPECT_EQ(leads("0.0.0.0:8002", none), "http://localhost:8002/console/") << none;
}

TEST(OpenApiRouteTest, IsOfTheFirstGroupThatThePortServes) {
  EXPECT_EQ(OpenApiRoute::ApiOf(ApiSet::All()), Api::kMetadata);
  EXPECT_EQ(OpenApiRoute::ApiOf(ApiSet::Of({Api::kHealth, Api::kMetrics})), Api::kMetrics);
  EXPECT_EQ(OpenApiRoute::ApiOf(ApiSet::Of({Api::kHealth})), Api::kHealth);
}

}  // namespace
}  // namespace braid
