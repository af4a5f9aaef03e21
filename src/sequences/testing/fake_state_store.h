// A StateStore in memory with the rules of the real one. It answers when the test says so.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "sequences/state_store.h"

namespace braid {

class FakeStateStore final : public StateStore {
 public:
  struct Record {
    uint64_t epoch = 0;
    uint64_t life = 0;
    uint64_t steps = 0;
    std::string identity;
    std::vector<Tensor> states;
    bool begun = true;  // false: it has an owner, and no states yet
  };

  void Take(const Name& name, const std::string& identity, TakenDone done) override {
    Do([this, name, identity, done = std::move(done)](bool away) {
      if (away) return done(UnavailableError("it is away"));
      Taken taken;
      const bool begins = identity.empty();
      if (begins && !records.contains(name.id)) records[name.id].begun = false;
      if (const auto found = records.find(name.id);
          found != records.end() && (begins || found->second.begun)) {
        Record& record = found->second;
        taken.finding = begins || record.identity == identity ? Finding::kFound : Finding::kOtherModel;
        if (taken.finding == Finding::kFound) {
          taken.before = record.epoch;
          record.epoch = ++last_epoch;
          record.life = 0;
          taken.epoch = record.epoch;
          taken.steps = record.steps;
          if (!begins) taken.states = record.states;
        }
      }
      done(std::move(taken));
    });
  }
  void Write(const Name& name, const std::string& identity, const Step& step, WrittenDone done) override {
    Do([this, name, identity, step, done = std::move(done)](bool away) {
      if (away) return done(UnavailableError("it is away"));
      const auto found = records.find(name.id);
      const OwnershipLease& lease = step.lease;
      if (lease.epoch != 0) {
        if (found == records.end()) return done(Written{Verdict::kMissing, 0});
        if (found->second.epoch != lease.epoch) return done(Written{Verdict::kFenced, 0});
        if (!step.takes_back && found->second.life == lease.life && found->second.steps > lease.steps)
          return done(Written{Verdict::kAccepted, lease.epoch});
      } else if (found != records.end() && found->second.begun && found->second.life != lease.life) {
        return done(Written{Verdict::kFenced, 0});
      }
      Record& record = records[name.id];
      if (lease.epoch == 0 && record.life != lease.life) record.epoch = ++last_epoch;
      record = {record.epoch, lease.life, lease.steps, identity, *step.states};
      ++writes;
      done(Written{Verdict::kAccepted, record.epoch});
    });
  }
  void End(const Name& name, const OwnershipLease& lease, WrittenDone done) override {
    Do([this, name, lease, done = std::move(done)](bool away) {
      if (away) return done(UnavailableError("it is away"));
      const auto found = records.find(name.id);
      if (found == records.end()) {
        return done(Written{lease.epoch == 0 ? Verdict::kAccepted : Verdict::kMissing, 0});
      }
      if (lease.epoch != 0 && found->second.epoch != lease.epoch) return done(Written{Verdict::kFenced, 0});
      records.erase(found);
      done(Written{Verdict::kAccepted, 0});
    });
  }
  const StorePolicy& policy() const override { return policy_; }

  // Answers the oldest call; with `away`, with an error and without executing it.
  void AnswerOne(bool away = false) {
    auto one = std::move(asked.front());
    asked.pop_front();
    one(away);
  }
  void AnswerAll(bool away = false) {
    while (!asked.empty()) AnswerOne(away);
  }

  StorePolicy policy_;
  bool answers_at_once = true;
  std::deque<std::function<void(bool)>> asked;
  std::map<CorrelationId, Record> records;
  uint64_t last_epoch = 100;
  int writes = 0;

 private:
  void Do(std::function<void(bool)> what) {
    if (answers_at_once) return what(false);
    asked.push_back(std::move(what));
  }
};

}  // namespace braid
