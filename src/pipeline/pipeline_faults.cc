#include "pipeline/pipeline_faults.h"

#include <algorithm>

namespace braid {

Status FaultAt(const Status& status, std::string_view where) {
  return status.WithMessage(std::string(status.message()).append(" (").append(where).append(")"));
}

void PipelineFaults::Add(Fault code, std::string_view where, std::string_view text) {
  std::string details = Where(where);
  if (!text.empty()) details.append(": ").append(text);
  faults_.push_back({std::string(where), FaultError(code, details)});
  codes_.push_back(code);
}

void PipelineFaults::Add(const Status& status, std::string_view where) {
  faults_.push_back({std::string(where), FaultAt(status, Where(where))});
}

std::string PipelineFaults::Where(std::string_view where) const {
  std::string text = "pipeline '" + pipeline_ + "'";
  if (!where.empty()) text.append(", ").append(where);
  return text;
}

bool PipelineFaults::Has(Fault code) const {
  return std::find(codes_.begin(), codes_.end(), code) != codes_.end();
}

Status PipelineFaults::ToStatus() const {
  if (faults_.empty()) return OkStatus();
  std::string text;
  for (const PipelineFault& fault : faults_) {
    text.append(text.empty() ? "" : "\n").append(fault.status.message());
  }
  return faults_.front().status.WithMessage(std::move(text));
}

}  // namespace braid
