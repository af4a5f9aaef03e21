// PipelineFaults: all faults of a pipeline's definition.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "serving/faults.h"

namespace braid {

// Appends the place to the text that clients know: "(pipeline 'p', node 'a')".
Status FaultAt(const Status& status, std::string_view where);

struct PipelineFault {
  // "node 'a', input 'x'"; empty for the pipeline itself.
  std::string where;
  Status status;
};

class PipelineFaults {
 public:
  explicit PipelineFaults(std::string pipeline) : pipeline_(std::move(pipeline)) {}

  // `where` is "node 'a', input 'x'", or empty for the pipeline itself.
  void Add(Fault code, std::string_view where, std::string_view text);
  // Adds an error that was found elsewhere.
  void Add(const Status& status, std::string_view where);

  bool empty() const { return faults_.empty(); }
  const std::vector<PipelineFault>& all() const { return faults_; }
  bool Has(Fault code) const;
  // Returns OK, or the code of the first fault with a line for each fault.
  Status ToStatus() const;

 private:
  std::string Where(std::string_view where) const;

  const std::string pipeline_;
  std::vector<PipelineFault> faults_;
  std::vector<Fault> codes_;
};

}  // namespace braid
