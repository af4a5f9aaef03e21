#include "pipeline/pipeline_faults.h"

#include <algorithm>

namespace braid {

void PipelineFaults::Add(OvmsCode code, std::string_view where, std::string_view text) {
  std::string details = "pipeline '" + pipeline_ + "'";
  if (!where.empty()) details.append(", ").append(where);
  if (!text.empty()) details.append(": ").append(text);
  faults_.push_back(OvmsError(code, details));
  codes_.push_back(code);
}

void PipelineFaults::Add(const Status& status, std::string_view where) {
  std::string text = status.message() + " (pipeline '" + pipeline_ + "'";
  if (!where.empty()) text.append(", ").append(where);
  faults_.push_back(status.WithMessage(text + ")"));
}

bool PipelineFaults::Has(OvmsCode code) const {
  return std::find(codes_.begin(), codes_.end(), code) != codes_.end();
}

Status PipelineFaults::ToStatus() const {
  if (faults_.empty()) return OkStatus();
  std::string text;
  for (const Status& fault : faults_) text.append(text.empty() ? "" : "\n").append(fault.message());
  return faults_.front().WithMessage(std::move(text));
}

}  // namespace braid
