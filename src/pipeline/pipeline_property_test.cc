// Random pipelines, compared to an evaluator without flows: it recursively asks each node for each shard. The
// models answer at once or on threads, in any order.
#include <deque>
#include <map>
#include <random>
#include <thread>

#include "base/thread.h"
#include "pipeline/testing/pipeline_fixture.h"

namespace braid {
namespace {

using Vec = std::vector<int32_t>;
constexpr size_t kWidth = 2;  // of every shard

int32_t Mix(int32_t a, int32_t b) {
  return static_cast<int32_t>((static_cast<int64_t>(a) * 31 + b) % 1000003);
}

// The answer of a node to its inputs, each `rows` shards of kWidth values: one shard, or `cuts` of them.
Vec Compute(const std::vector<Vec>& inputs, int32_t salt, int32_t cuts) {
  Vec one(kWidth, salt);
  for (const Vec& input : inputs) {
    for (size_t i = 0; i < input.size(); ++i) one[i % kWidth] = Mix(one[i % kWidth], input[i]);
  }
  Vec all;
  for (int32_t cut = 0; cut < std::max(cuts, 1); ++cut) {
    for (int32_t value : one) all.push_back(Mix(value, cut));
  }
  return all;
}

// A random pipeline with valid scopes.
struct Plan {
  struct Node {
    std::vector<size_t> sources;  // nodes; kRequest is the request
    int32_t cuts = 0;
    size_t gathers = SIZE_MAX;  // a node, or kRequest
    std::vector<size_t> open;   // demultiplexers behind it, itself included
    bool used = false;
  };
  static constexpr size_t kRequest = 1000;
  int32_t request_cuts = 0;
  std::vector<Node> nodes;
  std::vector<size_t> outputs;

  const std::vector<size_t>& OpenBehind(size_t node) const {
    return node == kRequest ? request_open : nodes[node].open;
  }
  int32_t Cuts(size_t node) const { return node == kRequest ? request_cuts : nodes[node].cuts; }
  std::vector<size_t> request_open;

  static Plan Random(std::mt19937& random) {
    auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    Plan plan;
    if (below(3) == 0) {
      plan.request_cuts = static_cast<int32_t>(1 + below(4));
      plan.request_open = {kRequest};
    }
    const size_t count = 1 + below(9);
    for (size_t i = 0; i < count; ++i) {
      Node node;
      // The first source decides the scope of the node; other sources are of the same scope.
      auto any = [&] { return below(4) == 0 ? kRequest : (i == 0 ? kRequest : below(i)); };
      node.sources.push_back(any());
      node.open = plan.OpenBehind(node.sources[0]);
      for (size_t tries = below(4); tries > 0; --tries) {
        const size_t other = any();
        if (plan.OpenBehind(other) == node.open) node.sources.push_back(other);
      }
      if (!node.open.empty() && below(2) == 0) {
        node.gathers = node.open.back();
        node.open.pop_back();
      }
      if (node.open.size() < 3 && below(3) == 0) {
        node.cuts = static_cast<int32_t>(1 + below(4));
        node.open.push_back(i);
      }
      plan.nodes.push_back(std::move(node));
    }
    // The response takes nodes of one scope; unneeded nodes are dropped.
    const std::vector<size_t> open = plan.nodes.back().open;
    for (size_t i = 0; i < count; ++i) {
      if (plan.nodes[i].open == open && (i + 1 == count || below(2) == 0)) plan.Use(i, true);
    }
    return plan;
  }
  void Use(size_t node, bool output) {
    if (output) outputs.push_back(node);
    if (node == kRequest || nodes[node].used) return;
    nodes[node].used = true;
    for (size_t source : nodes[node].sources) Use(source, false);
  }
};

// The evaluator.
class Reference {
 public:
  Reference(const Plan& plan, const Vec& x) : plan_(plan), x_(x) {}

  // Returns the answer of a node in the flow `path`, which has the shard number of each open demultiplexer.
  const Vec& Answer(size_t node, const std::vector<size_t>& path) {
    auto known = known_.find({node, path});
    if (known != known_.end()) return known->second;
    const Plan::Node& plan = plan_.nodes[node];
    std::vector<Vec> inputs;
    for (size_t source : plan.sources) {
      if (plan.gathers == SIZE_MAX) {
        inputs.push_back(Shard(source, path));
        continue;
      }
      Vec all;
      for (int32_t shard = 0; shard < plan_.Cuts(plan.gathers); ++shard) {
        std::vector<size_t> inner = path;
        inner.push_back(static_cast<size_t>(shard));
        const Vec one = Shard(source, inner);
        all.insert(all.end(), one.begin(), one.end());
      }
      inputs.push_back(std::move(all));
    }
    return known_[{node, path}] = Compute(inputs, static_cast<int32_t>(node), plan.cuts);
  }
  // Returns the tensor that nodes behind `node` see in the flow `path`.
  Vec Shard(size_t node, std::vector<size_t> path) {
    if (plan_.Cuts(node) == 0) return node == Plan::kRequest ? x_ : Answer(node, path);
    const size_t number = path.back();
    path.pop_back();
    const Vec& whole = node == Plan::kRequest ? x_ : Answer(node, path);
    const auto begin = whole.begin() + static_cast<ptrdiff_t>(number * kWidth);
    return {begin, begin + kWidth};
  }
  // Returns all shards, in order.
  Vec Output(size_t node, std::vector<size_t> path = {}) {
    const auto& open = plan_.nodes[node].open;
    if (path.size() == open.size()) return Shard(node, path);
    Vec all;
    const int32_t count = plan_.Cuts(open[path.size()]);
    for (int32_t shard = 0; shard < count; ++shard) {
      path.push_back(static_cast<size_t>(shard));
      const Vec some = Output(node, path);
      all.insert(all.end(), some.begin(), some.end());
      path.pop_back();
    }
    return all;
  }

 private:
  const Plan& plan_;
  const Vec& x_;
  std::map<std::pair<size_t, std::vector<size_t>>, Vec> known_;
};

// Runs its work on two threads, in a random order.
class Threads {
 public:
  Threads() {
    for (unsigned i = 0; i < 2; ++i) threads_.push_back(StartThread("brd-fake", [this, i] { Loop(i); }));
  }
  ~Threads() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void Run(std::function<void()> work) {
    {
      std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
    }
    changed_.notify_one();
  }

 private:
  void Loop(unsigned seed) {
    std::mt19937 random(seed);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || !work_.empty(); });
      if (work_.empty()) return;
      std::swap(work_[random() % work_.size()], work_.back());
      auto work = std::move(work_.back());
      work_.pop_back();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> work_;  // guarded by mutex_
  bool stopping_ = false;                    // guarded by mutex_
  std::vector<std::thread> threads_;
};

std::string Numbered(const char* prefix, size_t number) {
  return std::string(prefix).append(std::to_string(number));
}

class PipelineProperty : public PipelineFixture {
 protected:
  static std::string NodeName(size_t node) {
    return node == Plan::kRequest ? std::string("request") : Numbered("n", node);
  }
  static std::string Source(size_t node) {
    return NodeName(node).append(node == Plan::kRequest ? "/x" : "/y");
  }

  // `fails` is called for each run.
  OvmsPipelineConfig AddModels(const Plan& plan, std::mt19937& random, std::function<bool()> fails) {
    OvmsPipelineConfig entry;
    entry.name = "p";
    entry.inputs = {"x"};
    if (plan.request_cuts > 0) entry.demultiply_count = plan.request_cuts;
    for (size_t i = 0; i < plan.nodes.size(); ++i) {
      const Plan::Node& node = plan.nodes[i];
      if (!node.used) continue;
      const std::string name = NodeName(i);
      std::vector<TensorSpec> inputs;
      std::vector<std::string> connections;
      for (size_t s = 0; s < node.sources.size(); ++s) {
        const std::string input = Numbered("I", s);
        inputs.push_back(
            Spec(input, DataType::kInt32, node.gathers == SIZE_MAX ? Shape{kWidth} : Shape{-1, kWidth}));
        connections.push_back(Numbered("I", s).append("=").append(Source(node.sources[s])));
      }
      const Shape shape = node.cuts > 0 ? Shape{node.cuts, kWidth} : Shape{kWidth};
      auto model = AddModel(name, inputs, {Spec("OUT", DataType::kInt32, shape)});
      const bool later = random() % 2 == 0;
      model->set_behaviour(
          [this, i, shape, later, fails, cuts = node.cuts](std::unique_ptr<InferenceRequest> request) {
            auto answer = [i, shape, cuts, fails](InferenceRequest& request) {
              if (request.cancelled() || fails()) {
                request.Fail(InternalError("bad luck"));
                return;
              }
              std::vector<Vec> inputs;
              for (size_t s = 0; s < request.inputs.size(); ++s) {
                inputs.push_back(Int32Values(Named(request.inputs, Numbered("I", s))));
              }
              request.inputs.clear();
              Tensor output = Ints("OUT", shape, Compute(inputs, static_cast<int32_t>(i), cuts));
              request.Respond(FakeStep::Response({std::move(output)}), true);
            };
            if (!later) {
              answer(*request);
              return;
            }
            auto kept = std::shared_ptr<InferenceRequest>(std::move(request));  // std::function is copied
            pool_.Run([answer, kept]() mutable {
              answer(*kept);
              kept.reset();
            });
          });
      OvmsNodeConfig made = Dl(name, name, connections, {"OUT=y"});
      if (node.cuts > 0) made.demultiply_count = node.cuts;
      if (node.gathers != SIZE_MAX) made.gather_from_node = NodeName(node.gathers);
      entry.nodes.push_back(std::move(made));
    }
    std::shuffle(entry.nodes.begin(), entry.nodes.end(), random);
    for (size_t output : plan.outputs) {
      entry.outputs.push_back(Connection(Numbered("o", output).append("=").append(Source(output))));
    }
    return entry;
  }

  static Tensor Input(const Plan& plan, std::mt19937& random) {
    Shape shape{kWidth};
    if (plan.request_cuts > 0) shape.insert(shape.begin(), plan.request_cuts);
    Vec values(static_cast<size_t>(*ElementCount(shape)));
    for (int32_t& value : values) value = static_cast<int32_t>(random() % 1000);
    return Ints("x", shape, values);
  }

  Threads pool_;
};

TEST_F(PipelineProperty, AgreesWithTheReference) {
  std::mt19937 random(5);
  size_t cuts = 0;
  size_t gathers = 0;
  size_t nested = 0;
  for (int round = 0; round < 600; ++round) {
    const Plan plan = Plan::Random(random);
    auto made = Make(AddModels(plan, random, [] { return false; }));
    ASSERT_TRUE(made.ok()) << "round " << round << ": " << made.status();
    const Tensor x = Input(plan, random);
    const Vec values = Int32Values(x);
    Reference reference(plan, values);
    const auto outputs = Run(*made, {x});
    ASSERT_EQ(outputs.size(), plan.outputs.size()) << round;
    for (size_t i = 0; i < outputs.size(); ++i) {
      ASSERT_EQ(Int32Values(outputs[i]), reference.Output(plan.outputs[i])) << "round " << round;
      ASSERT_TRUE(ShapeMatches((*made)->info().outputs[i].shape, outputs[i].shape)) << round;
      ASSERT_EQ(ByteSize(outputs[i].type, outputs[i].shape), outputs[i].data.size()) << round;
    }
    EXPECT_EQ((*made)->gate().inside(), 0u);
    for (const auto& node : plan.nodes) {
      if (!node.used) continue;
      cuts += node.cuts > 0;
      gathers += node.gathers != SIZE_MAX;
      nested += node.open.size() > 1;
    }
  }
  // The rounds have covered enough.
  EXPECT_GT(cuts, 300u);
  EXPECT_GT(gathers, 200u);
  EXPECT_GT(nested, 100u);
}

TEST_F(PipelineProperty, EveryRequestEndsOnceWhateverFails) {
  std::mt19937 random(6);
  std::atomic<unsigned> calls{0};
  for (int round = 0; round < 200; ++round) {
    const Plan plan = Plan::Random(random);
    auto made = Make(AddModels(plan, random, [&calls] { return ++calls % 13 == 0; }));
    ASSERT_TRUE(made.ok()) << made.status();
    std::deque<KeepingSink> sinks(4);
    for (KeepingSink& sink : sinks) {
      auto request = Request(*made, sink, {Input(plan, random)});
      auto cancellation = request->cancellation;
      (*made)->Infer(std::move(request));
      if (random() % 4 == 0) cancellation->Cancel();
    }
    for (KeepingSink& sink : sinks) {
      sink.Wait();
      ASSERT_EQ(sink.responses().size(), 1u);
    }
    EXPECT_EQ((*made)->gate().inside(), 0u);
    const auto statistics = (*made)->statistics().Snapshot();
    EXPECT_EQ(statistics.success.count + statistics.fail.count, 4u);
  }
}

}  // namespace
}  // namespace braid
