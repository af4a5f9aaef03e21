// NearestName: finds the known name that a user probably meant.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

class NearestName {
 public:
  explicit NearestName(std::string_view wanted) : wanted_(wanted), distance_(1 + (wanted.size() + 1) / 3) {}

  void Offer(std::string_view known) {
    is_known_ = is_known_ || known == wanted_;
    const size_t distance = Distance(known);
    if (distance < distance_) {
      distance_ = distance;
      name_ = known;
    }
  }
  // Returns "" if every known name differs in more than a third of the letters. Also returns "" if the wanted
  // name itself was offered: the error then has another cause.
  std::string name() const { return is_known_ ? std::string() : name_; }

 private:
  // The Levenshtein distance, ignoring case.
  size_t Distance(std::string_view known) const {
    std::vector<size_t> row(known.size() + 1);
    for (size_t j = 0; j <= known.size(); ++j) row[j] = j;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i + 1;
      for (size_t j = 0; j < known.size(); ++j) {
        const bool same = std::tolower(static_cast<unsigned char>(wanted_[i])) ==
                          std::tolower(static_cast<unsigned char>(known[j]));
        const size_t changed = diagonal + (same ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
      }
    }
    return row[known.size()];
  }

  std::string_view wanted_;
  size_t distance_;
  std::string name_;
  bool is_known_ = false;
};

}  // namespace braid
