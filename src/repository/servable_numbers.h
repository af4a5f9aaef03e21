// ServableNumbers: tells servables apart, also from those that are gone by now.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "serving/servable.h"

namespace braid {

// Without locks; whoever owns it guards it.
class ServableNumbers {
 public:
  // The same number for the same servable, and never for another one.
  uint64_t NumberOf(const std::shared_ptr<Servable>& servable) {
    if (const auto known = numbers_.find(servable); known != numbers_.end()) return known->second;
    std::erase_if(numbers_, [](const auto& one) { return one.first.expired(); });
    return numbers_[servable] = ++last_;
  }

 private:
  // Keeps none of them alive.
  std::map<std::weak_ptr<Servable>, uint64_t, std::owner_less<>> numbers_;
  uint64_t last_ = 0;
};

}  // namespace braid
