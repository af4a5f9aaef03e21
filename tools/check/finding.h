// Finding: one thing that `braid check` has to say of a file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace braid::check {

enum class Level : unsigned char {
  kError,       // the server would not load it
  kRefused,     // the server does not have the feature, and would not load it
  kDifference,  // it loads, and something is different from Triton or OpenVINO Model Server
  kNote,        // it loads, and something in it has no effect
};
// "error", "refused", "difference", "note".
std::string_view LevelName(Level level);
// Whether the server would not load what it is about.
inline bool Blocks(Level level) { return level == Level::kError || level == Level::kRefused; }

// Counts from 1, columns in bytes; a line of 0 is the file as a whole.
struct Position {
  int line = 0;
  int column = 0;
  auto operator<=>(const Position&) const = default;
};

struct Finding {
  Level level = Level::kError;
  // Names the kind of finding, the same in all versions: "unknown-field".
  std::string rule;
  // Of a file, or of a folder where there is no file to blame.
  std::string path;
  Position at;
  // What is wrong.
  std::string message;
  // What to write instead; may be empty.
  std::string advice;
  // A page of the documentation, with its anchor; may be empty.
  std::string page;
  // The servable that it is about; empty for none.
  std::string servable;
};

// What has been found, in the order of files and their lines.
class Findings {
 public:
  // A finding that is there already, but for its rule, is left out.
  void Add(Finding finding);
  // Sorts what was added.
  void Sort();

  const std::vector<Finding>& all() const { return all_; }
  size_t Count(Level level) const;
  bool blocks() const { return Count(Level::kError) + Count(Level::kRefused) > 0; }

 private:
  std::vector<Finding> all_;
};

}  // namespace braid::check
