// Finding: one problem or difference that `braid check` reports about a file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace braid::check {

enum class Level : unsigned char {
  kError,       // the server would not load it
  kRefused,     // Braid lacks the feature, and would not load it
  kDifference,  // it loads, but differs from Triton or OpenVINO Model Server
  kNote,        // it loads, but something has no effect
};
// "error", "refused", "difference", "note".
std::string_view LevelName(Level level);
// Whether the server would refuse to load the file or servable.
inline bool Blocks(Level level) { return level == Level::kError || level == Level::kRefused; }

// Line and column, both from 1; columns are in bytes. Line 0 stands for the whole file.
struct Position {
  int line = 0;
  int column = 0;
  auto operator<=>(const Position&) const = default;
};

struct Finding {
  Level level = Level::kError;
  // Names the kind of finding; stable across versions: "unknown-field".
  std::string rule;
  // A file, or a folder if no file is at fault.
  std::string path;
  Position at;
  // The problem.
  std::string message;
  // The suggested change; may be empty.
  std::string advice;
  // A page of the documentation, with its anchor; may be empty.
  std::string page;
  // The affected servable; may be empty.
  std::string servable;
};

// A list of findings without duplicates.
class Findings {
 public:
  // Drops a duplicate: a finding with the level, path, position and message of an earlier one.
  void Add(Finding finding);
  // Sorts by path, position and level.
  void Sort();

  const std::vector<Finding>& all() const { return all_; }
  size_t Count(Level level) const;
  bool blocks() const { return Count(Level::kError) + Count(Level::kRefused) > 0; }

 private:
  std::vector<Finding> all_;
};

}  // namespace braid::check
