// StopCutter: cuts a text that arrives in pieces at the first of several stop texts. It holds back bytes that
// may begin a stop text, and bytes of a character that is not complete.
//
//   StopCutter cutter({"\n\n", "User:"});
//   send(cutter.Add("Hello\n"));      // "Hello"
//   send(cutter.Add("\nUser:"));      // "", and cutter.stopped()
//   send(cutter.Rest());
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace braid {

class StopCutter {
 public:
  // No stop text is empty.
  explicit StopCutter(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Returns the text that can be sent now. After a stop text, nothing more is sent.
  std::string Add(std::string_view piece);
  // Returns the text that was held back; called at the end.
  std::string Rest();
  bool stopped() const { return stopped_; }

 private:
  const std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace braid
