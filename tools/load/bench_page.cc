// The page of `braid bench --report`: one self-contained file with SVG charts, for light and dark screens.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/utf8.h"
#include "load/bench.h"

namespace braid::load {
namespace {

constexpr double kWidth = 560;
constexpr double kHeight = 260;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 14;
constexpr double kBottom = 42;

constexpr std::string_view kStyle = R"(
:root { --back: #ffffff; --text: #1c2430; --dim: #5c6675; --line: #dde2e9; --card: #f6f8fa;
        --one: #1668c7; --two: #c2410c; --three: #0f7b52; --four: #7c3aed; --bad: #b42318; }
@media (prefers-color-scheme: dark) {
  :root { --back: #12161c; --text: #e4e9f0; --dim: #97a2b2; --line: #2c3440; --card: #1a2029;
          --one: #62a8f5; --two: #f2935c; --three: #4cc38a; --four: #b195f7; --bad: #ff8a7a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 28px 24px 48px; background: var(--back); color: var(--text);
       font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
h1 { font-size: 24px; margin: 0 0 2px; } h2 { font-size: 17px; margin: 30px 0 10px; }
p.sub { color: var(--dim); margin: 0 0 18px; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px 16px; min-width: 150px; }
.tile b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; } .tile span { color: var(--dim); font-size: 13px; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 16px; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 12px 6px; }
figcaption { font-weight: 600; font-size: 14px; display: flex; justify-content: space-between; flex-wrap: wrap; gap: 4px 14px; }
.key { font-weight: 400; color: var(--dim); } .key i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin: 0 5px 0 10px; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--dim); font-size: 11.5px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14px; }
th { color: var(--dim); font-weight: 600; text-align: right; } td { text-align: right; }
th, td { padding: 5px 10px; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } td.text { text-align: left; white-space: normal; }
.bad { color: var(--bad); } code { font-size: 13px; overflow-wrap: anywhere; }
)";

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : ToUtf8(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

// Formats 1234567 as "1.23M".
std::string Short(double value) {
  if (value >= 1e6) return fmt::format("{:.3g}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.3g}k", value / 1e3);
  if (value >= 100) return fmt::format("{:.0f}", value);
  return fmt::format("{:.3g}", value);
}

std::string TimeText(double us) {
  if (us == 0) return "0";
  if (us >= 1e6) return fmt::format("{:.3g} s", us / 1e6);
  if (us >= 1e3) return fmt::format("{:.3g} ms", us / 1e3);
  return fmt::format("{:.3g} us", us);
}

struct Curve {
  std::string name;
  std::string color;
  std::vector<std::pair<double, double>> points;
};

// Returns round axis ticks from 0 to a value above `most`.
std::vector<double> Ticks(double most) {
  if (!(most > 0)) most = 1;
  const double raw = most / 5;
  const double magnitude = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * magnitude;
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * magnitude >= raw) {
      step = factor * magnitude;
      break;
    }
  }
  std::vector<double> ticks;
  for (double tick = 0; tick < most + step; tick += step) ticks.push_back(tick);
  return ticks;
}

std::string Figure(const std::string& title, const std::vector<Curve>& lines, const std::string& body) {
  std::string key;
  if (lines.size() > 1) {
    for (const Curve& line : lines)
      key += fmt::format(R"svg(<i style="background:var(--{})"></i>{})svg", line.color, Escaped(line.name));
  }
  return fmt::format(
      "<figure><figcaption><span>{}</span><span class=\"key\">{}</span></figcaption>\n"
      "<svg viewBox=\"0 0 {:g} {:g}\" role=\"img\" aria-label=\"{}\">{}</svg></figure>\n",
      Escaped(title), key, kWidth, kHeight, Escaped(title), body);
}

std::string Axis(const std::vector<double>& ticks, const std::function<std::string(double)>& name,
                 const std::string& below) {
  std::string body;
  const double plot = kHeight - kTop - kBottom;
  for (const double tick : ticks) {
    const double y = kTop + plot * (1 - tick / ticks.back());
    body += fmt::format(R"svg(<line x1="{:g}" x2="{:g}" y1="{:.1f}" y2="{:.1f}" stroke="var(--line)"/>)svg",
                        kLeft, kWidth - kRight, y, y);
    body += fmt::format(R"svg(<text x="{:g}" y="{:.1f}" text-anchor="end">{}</text>)svg", kLeft - 7, y + 4,
                        name(tick));
  }
  body += fmt::format(R"svg(<text x="{:g}" y="{:g}" text-anchor="middle">{}</text>)svg",
                      (kLeft + kWidth - kRight) / 2, kHeight - 6, Escaped(below));
  return body;
}

std::string LinePlot(const std::string& title, const std::string& below, const std::vector<Curve>& lines,
                     bool dots, const std::function<std::string(double)>& name) {
  double most = 0;
  double left = 1e300;
  double right = 0;
  for (const Curve& line : lines) {
    for (const auto& [x, y] : line.points) {
      most = std::max(most, y);
      left = std::min(left, x);
      right = std::max(right, x);
    }
  }
  if (right <= 0) return "";
  if (!dots) left = 0;
  const std::vector<double> ticks = Ticks(most);
  std::string body = Axis(ticks, name, below);
  const double width = kWidth - kLeft - kRight;
  const double plot = kHeight - kTop - kBottom;
  const auto at_x = [&](double x) {
    return right > left ? kLeft + 10 + (width - 20) * (x - left) / (right - left) : kLeft + width / 2;
  };
  const auto at_y = [&](double y) { return kTop + plot * (1 - y / ticks.back()); };
  // The axis has a mark at each point if they fit, else round numbers.
  constexpr double kLeastGap = 36;
  std::vector<double> marks;
  if (dots) {
    for (const auto& [x, y] : lines.front().points) marks.push_back(x);
  }
  const auto crowded = [&](double one, double next) { return at_x(next) - at_x(one) < kLeastGap; };
  if (marks.empty() || std::ranges::adjacent_find(marks, crowded) != marks.end()) {
    marks.clear();
    for (const double tick : Ticks(right)) {
      if (tick >= left && tick <= right) marks.push_back(tick);
    }
  }
  for (const double mark : marks) {
    body += fmt::format(R"svg(<text x="{:.1f}" y="{:g}" text-anchor="middle">{}</text>)svg", at_x(mark),
                        kHeight - kBottom + 16, Short(mark));
  }
  for (const Curve& line : lines) {
    std::string path;
    for (const auto& [x, y] : line.points)
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", at_x(x), at_y(y));
    body += fmt::format(
        R"svg(<path d="{}" fill="none" stroke="var(--{})" stroke-width="2" stroke-linejoin="round"/>)svg",
        path, line.color);
    if (!dots) continue;
    for (const auto& [x, y] : line.points) {
      body += fmt::format(
          R"svg(<circle cx="{:.1f}" cy="{:.1f}" r="3.5" fill="var(--{})"><title>{} at {:g}: {}</title></circle>)svg",
          at_x(x), at_y(y), line.color, Escaped(line.name), x, name(y));
    }
  }
  return Figure(title, lines, body);
}

std::string BarPlot(const std::string& title, const std::vector<Bar>& bars, const Latency& latency) {
  if (bars.empty()) return "";
  uint64_t most = 0;
  for (const Bar& bar : bars) most = std::max(most, bar.count);
  const std::vector<double> ticks = Ticks(static_cast<double>(most));
  std::string body = Axis(ticks, Short, "latency, logarithmic");
  const double width = kWidth - kLeft - kRight;
  const double plot = kHeight - kTop - kBottom;
  const double low = std::log(bars.front().from_us);
  const double high = std::log(bars.back().to_us);
  const auto at_x = [&](double us) {
    return kLeft + width * std::clamp((std::log(us) - low) / (high - low), 0.0, 1.0);
  };
  for (const Bar& bar : bars) {
    if (bar.count == 0) continue;
    const double tall = std::max(1.0, plot * static_cast<double>(bar.count) / ticks.back());
    body += fmt::format(
        R"svg(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="var(--one)" opacity=".75"><title>{} to {}: {}</title></rect>)svg",
        at_x(bar.from_us), kTop + plot - tall, std::max(1.0, at_x(bar.to_us) - at_x(bar.from_us) - 1), tall,
        TimeText(bar.from_us), TimeText(bar.to_us), bar.count);
  }
  constexpr double kLeastGap = 54;
  double last = -kLeastGap;
  for (const double us : {bars.front().from_us, std::exp((low * 2 + high) / 3),
                          std::exp((low + high * 2) / 3), bars.back().to_us}) {
    const char* anchor = us == bars.front().from_us ? "start" : us == bars.back().to_us ? "end" : "middle";
    body += fmt::format(R"svg(<text x="{:.1f}" y="{:g}" text-anchor="{}">{}</text>)svg", at_x(us),
                        kHeight - kBottom + 16, anchor, TimeText(us));
  }
  for (const int percentile : {50, 99}) {
    const double x = at_x(std::max(bars.front().from_us, latency.at(percentile)));
    body += fmt::format(
        R"svg(<line x1="{:.1f}" x2="{:.1f}" y1="{:g}" y2="{:g}" stroke="var(--two)" stroke-dasharray="4 3"/>)svg",
        x, x, kTop, kHeight - kBottom);
    const bool beside = x - last >= kLeastGap;
    body += fmt::format(R"svg(<text x="{:.1f}" y="{:g}" text-anchor="{}">p{}</text>)svg",
                        x > kWidth - 60 ? x - 4 : x + 4, kTop + (beside ? 10 : 24),
                        x > kWidth - 60 ? "end" : "start", percentile);
    last = x;
  }
  return Figure(title, {}, body);
}

std::string Tile(const std::string& value, const std::string& name) {
  return "<div class=\"tile\"><b>" + Escaped(value) + "</b><span>" + Escaped(name) + "</span></div>\n";
}

std::string Row(const std::vector<std::string>& cells, const char* tag) {
  std::string row = "<tr>";
  for (const std::string& cell : cells) row += fmt::format("<{}>{}</{}>", tag, cell, tag);
  return row + "</tr>\n";
}

// The levels of one server, plotted over the load.
struct Series {
  std::string name;
  std::vector<const Level*> levels;
};

std::vector<std::pair<double, double>> Points(const Series& series,
                                              const std::function<double(const Figures&)>& value) {
  std::vector<std::pair<double, double>> points;
  for (const Level* level : series.levels) points.emplace_back(level->load, value(level->figures));
  return points;
}

std::string Table(const BenchOptions& options, const std::vector<Series>& all) {
  std::vector<std::string> head = {options.open_load() ? "Rate" : "Concurrency",
                                   "infer/s",
                                   "Requests",
                                   "Mean",
                                   "p50",
                                   "p90",
                                   "p95",
                                   "p99"};
  bool server = false;
  bool stream = false;
  for (const Series& series : all) {
    for (const Level* level : series.levels) {
      server = server || level->figures.server;
      stream = stream || level->figures.first_response;
    }
  }
  if (all.size() > 1) head.insert(head.begin(), "Server");
  if (options.chat()) head.emplace_back("Tokens/s");
  if (stream) {
    head.insert(head.end(), {options.chat() ? "First token" : "First response",
                             options.chat() ? "Between tokens" : "Between responses"});
  }
  if (server) head.insert(head.end(), {"Queue", "Compute"});
  head.push_back("Errors");
  std::string rows = Row(head, "th");
  for (const Series& series : all) {
    for (const Level* level : series.levels) {
      const Figures& figures = level->figures;
      std::vector<std::string> cells = {fmt::format("{:g}", level->load),
                                        fmt::format("{:.1f}", figures.inferences_per_s),
                                        std::to_string(figures.requests), TimeText(figures.latency.mean_us)};
      if (all.size() > 1) cells.insert(cells.begin(), Escaped(series.name));
      for (const int percentile : {50, 90, 95, 99}) cells.push_back(TimeText(figures.latency.at(percentile)));
      if (options.chat()) cells.push_back(fmt::format("{:.1f}", figures.responses_per_s));
      if (stream) {
        cells.push_back(figures.first_response ? TimeText(figures.first_response->at(50)) : "");
        cells.push_back(figures.between_responses ? TimeText(figures.between_responses->at(50)) : "");
      }
      if (server) {
        const ServerStatistics own = figures.server.value_or(ServerStatistics());
        const double requests = std::max(1.0, static_cast<double>(own.requests));
        cells.push_back(TimeText(static_cast<double>(own.queue_ns) / 1000 / requests));
        cells.push_back(
            TimeText(static_cast<double>(own.input_ns + own.infer_ns + own.output_ns) / 1000 / requests));
      }
      cells.push_back(figures.failed > 0 ? fmt::format("<span class=\"bad\">{}</span>", figures.failed)
                                         : "0");
      if (!level->stable) cells.front() += " <span class=\"bad\">not stable</span>";
      if (!level->rate_held) cells.front() += " <span class=\"bad\">rate not held</span>";
      rows += Row(cells, "td");
    }
  }
  return "<div class=\"scroll\"><table>\n" + rows + "</table></div>\n";
}

std::string RatioTable(const BenchOptions& options, const BenchResult& result) {
  std::string rows = Row({options.open_load() ? "Rate" : "Concurrency", "Throughput", "p50", "p99"}, "th");
  const auto show = [](const Ratios& ratios) {
    return fmt::format("x{:.3f} ({:.3f} to {:.3f})", ratios.median, ratios.least, ratios.greatest);
  };
  for (const Comparison& comparison : result.comparisons) {
    rows += Row({fmt::format("{:g}", comparison.load), show(comparison.throughput), show(comparison.p50),
                 show(comparison.p99)},
                "td");
  }
  return fmt::format(
      "<h2>Second relative to first: median of {} rounds</h2>\n<div "
      "class=\"scroll\"><table>\n{}</table></div>\n",
      result.comparisons.front().first.trials, rows);
}

}  // namespace

std::string HtmlReport(const BenchOptions& options, const BenchResult& result) {
  std::vector<Series> all;
  if (result.comparisons.empty()) {
    all.push_back({"", {}});
    for (const Level& level : result.levels) all[0].levels.push_back(&level);
  } else {
    all = {{options.connect.url.empty() ? "localhost" : options.connect.url, {}}, {options.compare_url, {}}};
    for (const Comparison& comparison : result.comparisons) {
      all[0].levels.push_back(&comparison.first);
      all[1].levels.push_back(&comparison.second);
    }
  }
  const Environment& environment = result.environment;
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light "
      "dark\">\n"
      "<title>{0}: braid bench</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n<p "
      "class=\"sub\">{2}{3} at {4}, {5}</p>\n",
      Escaped(environment.model), kStyle,
      Escaped(environment.server.empty() ? "a server" : environment.server),
      environment.platform.empty() ? "" : ", " + Escaped(environment.platform),
      Escaped(options.connect.url.empty() ? "localhost" : options.connect.url), Escaped(environment.date));

  const std::string below = options.open_load() ? "requests a second" : "requests in flight";
  const std::string at = options.open_load() ? "at a rate of {:g}/s" : "at a concurrency of {:g}";
  const Level* best = nullptr;
  uint64_t failed = 0;
  for (const Series& series : all) {
    for (const Level* level : series.levels) {
      if (best == nullptr || level->figures.inferences_per_s > best->figures.inferences_per_s) best = level;
      failed += level->figures.failed;
    }
  }
  if (best != nullptr) {
    const std::string where = fmt::format(fmt::runtime(at), best->load);
    page += "<div class=\"tiles\">\n" +
            Tile(Short(best->figures.inferences_per_s) + "/s", "most inferences, " + where) +
            Tile(TimeText(best->figures.latency.at(50)), "p50 there") +
            Tile(TimeText(best->figures.latency.at(99)), "p99 there") +
            (options.chat() ? Tile(Short(best->figures.responses_per_s) + "/s", "tokens there") : "") +
            Tile(std::to_string(failed), failed == 1 ? "error" : "errors");
    if (!result.comparisons.empty()) {
      page += Tile(fmt::format("x{:.3f}", result.comparisons.back().throughput.median),
                   "throughput, second relative to first");
    }
    page += "</div>\n";
  }

  const char* colors[] = {"one", "two"};
  std::vector<Curve> throughput;
  std::vector<Curve> latency;
  for (size_t i = 0; i < all.size(); ++i) {
    throughput.push_back(
        {all[i].name, colors[i], Points(all[i], [](const Figures& f) { return f.inferences_per_s; })});
    if (all.size() == 1) {
      for (const auto& [percentile, color] :
           {std::pair(50, "one"), std::pair(95, "three"), std::pair(99, "two")}) {
        latency.push_back({fmt::format("p{}", percentile), color,
                           Points(all[i], [percentile = percentile](const Figures& f) {
                             return f.latency.at(percentile);
                           })});
      }
    } else {
      latency.push_back(
          {all[i].name, colors[i], Points(all[i], [](const Figures& f) { return f.latency.at(50); })});
    }
  }
  page += "<h2>By load</h2>\n<div class=\"plots\">\n";
  page += LinePlot("Throughput, inferences a second", below, throughput, true, Short);
  page += LinePlot(all.size() == 1 ? "Latency" : "Latency, p50", below, latency, true, TimeText);
  if (all[0].levels.size() > 1 && all.size() == 1) {
    // The latency at each throughput, in the order of the levels.
    std::vector<std::pair<double, double>> points;
    for (const Level* level : all[0].levels)
      points.emplace_back(level->figures.inferences_per_s, level->figures.latency.at(99));
    page += LinePlot("Latency p99 over throughput", "inferences a second", {{"p99", "four", points}}, true,
                     TimeText);
  }
  std::vector<Curve> streams;
  for (const auto& [name, color, member] :
       {std::tuple(options.chat() ? "first token, p50" : "first response, p50", "one",
                   &Figures::first_response),
        std::tuple(options.chat() ? "between tokens, p50" : "between responses, p50", "three",
                   &Figures::between_responses)}) {
    Curve line{name, color, {}};
    for (const Level* level : all[0].levels) {
      if (level->figures.*member) line.points.emplace_back(level->load, (level->figures.*member)->at(50));
    }
    if (!line.points.empty()) streams.push_back(std::move(line));
  }
  if (!streams.empty())
    page += LinePlot(options.chat() ? "Tokens" : "Responses of streams", below, streams, true, TimeText);
  page += "</div>\n";
  for (const Series& series : all) {
    for (const Level* level : series.levels) {
      const std::string what =
          (series.name.empty() ? "" : series.name + ", ") + fmt::format(fmt::runtime(at), level->load);
      if (level->figures.histogram.empty()) continue;
      page += fmt::format("<h2>{}</h2>\n<div class=\"plots\">\n",
                          Escaped(series.name.empty() ? "At " + what.substr(3) : what));
      page += BarPlot("Requests by latency", level->figures.histogram, level->figures.latency);
      page += LinePlot("Median latency over time", "seconds", {{"p50", "one", level->figures.over_time}},
                       false, TimeText);
      page += "</div>\n";
    }
  }
  page += "<h2>Figures</h2>\n" + Table(options, all);
  if (!result.comparisons.empty()) page += RatioTable(options, result);
  std::map<std::string, uint64_t> errors;
  for (const Series& series : all) {
    for (const Level* level : series.levels) {
      for (const auto& [text, count] : level->figures.errors) errors[text] += count;
    }
  }
  if (!errors.empty()) {
    page += "<h2>Errors</h2>\n<table>\n";
    for (const auto& [text, count] : errors)
      page += fmt::format("<tr><td class=\"text\">{}</td><td>{}</td></tr>\n", Escaped(text), count);
    page += "</table>\n";
  }
  page += fmt::format("<h2>How it was measured</h2>\n<p>{}</p>\n<p><code>{}</code></p>\n",
                      Escaped(environment.machine), Escaped(options.command_line));
  if (result.interrupted) page += "<p class=\"bad\">Interrupted: results so far.</p>\n";
  return page + "</body>\n</html>\n";
}

}  // namespace braid::load
