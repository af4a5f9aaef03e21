#include "graph/timestamp.h"

namespace braid::graph {

std::string Timestamp::DebugString() const {
  if (*this == Unset()) return "Timestamp::Unset()";
  if (*this == Unstarted()) return "Timestamp::Unstarted()";
  if (*this == PreStream()) return "Timestamp::PreStream()";
  if (*this == Min()) return "Timestamp::Min()";
  if (*this == Max()) return "Timestamp::Max()";
  if (*this == PostStream()) return "Timestamp::PostStream()";
  if (*this == OneOverPostStream()) return "Timestamp::OneOverPostStream()";
  if (*this == Done()) return "Timestamp::Done()";
  return std::to_string(value_);
}

}  // namespace braid::graph
