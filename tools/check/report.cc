#include "check/report.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "check/output.h"

namespace braid::check {
namespace {

// Writes headings and lists.
class Page {
 public:
  explicit Page(bool markdown) : markdown_(markdown) {}

  void Heading(const std::string& text) {
    if (!text_.empty()) text_ += "\n";
    text_ +=
        (markdown_ ? "## " : "") + text + "\n" + (markdown_ ? "\n" : std::string(text.size(), '-') + "\n");
  }
  void Line(const std::string& text) { text_ += text + "\n"; }
  void Item(const std::string& text) { text_ += (markdown_ ? "- " : "  ") + text + "\n"; }
  void SubItem(const std::string& text) { text_ += (markdown_ ? "  - " : "      ") + text + "\n"; }
  std::string Code(const std::string& text) const { return markdown_ ? "`" + text + "`" : text; }
  std::string text() && { return std::move(text_); }

 private:
  const bool markdown_;
  std::string text_;
};

using Of = std::vector<const Finding*>;

Of FindingsOf(const CheckResult& result, std::string_view servable, auto wanted) {
  Of found;
  for (const Finding& finding : result.findings.all()) {
    if (finding.servable == servable && wanted(finding.level)) found.push_back(&finding);
  }
  return found;
}

std::string Told(const Page& page, const Finding& finding) {
  std::string text = page.Code(EscapeForLog(PlaceText(finding))) + ": " + MessageText(finding);
  if (!finding.page.empty()) text += " (" + finding.page + ")";
  return text;
}

std::string Named(const Page& page, const Checked& checked) {
  return page.Code(EscapeForLog(checked.name)) + ", " + checked.kind;
}

bool Refused(Level level) { return level == Level::kRefused; }

}  // namespace

std::string MovingReport(const CheckResult& result, bool markdown) {
  std::vector<const Checked*> works;
  std::vector<const Checked*> change;
  std::vector<const Checked*> cannot;
  for (const Checked& checked : result.summary) {
    if (checked.loads) {
      works.push_back(&checked);
    } else if (FindingsOf(result, checked.name, Refused).empty()) {
      change.push_back(&checked);
    } else {
      cannot.push_back(&checked);
    }
  }
  const Of of_files = FindingsOf(result, "", Blocks);

  Page page(markdown);
  page.Heading("Can it move to Braid?");
  if (change.empty() && cannot.empty() && of_files.empty()) {
    page.Line("Yes: everything loads unchanged.");
  } else {
    page.Line("Of " + std::to_string(result.summary.size()) + ": " + std::to_string(works.size()) +
              " load unchanged, " + std::to_string(change.size()) + " need a change, " +
              std::to_string(cannot.size()) + " use unsupported features." +
              (of_files.empty() ? "" : " A file has syntax errors; fix them first."));
  }
  const auto list = [&](const std::string& title, const std::vector<const Checked*>& these, auto wanted) {
    if (these.empty()) return;
    page.Heading(title);
    for (const Checked* checked : these) {
      page.Item(Named(page, *checked) +
                (checked->open ? " (according to its files; --import also checks its code)" : ""));
      for (const Finding* finding : FindingsOf(result, checked->name, wanted))
        page.SubItem(Told(page, *finding));
    }
  };
  if (!of_files.empty()) {
    page.Heading("Files with faults");
    for (const Finding* finding : of_files) page.Item(Told(page, *finding));
  }
  list("Works unchanged", works, [](Level) { return false; });
  list("Needs a change", change, Blocks);
  list("Uses unsupported features", cannot, Blocks);

  const auto others = [&](const std::string& title, Level level) {
    if (result.findings.Count(level) == 0) return;
    page.Heading(title);
    for (const Finding& finding : result.findings.all()) {
      if (finding.level == level) page.Item(Told(page, finding));
    }
  };
  others("What is different", Level::kDifference);
  others("What has no effect", Level::kNote);
  return std::move(page).text();
}

}  // namespace braid::check
