// Random graphs on real threads, compared to a model that computes whole streams, node after node.
#include <atomic>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "base/elastic_threads.h"
#include "graph/testing/graph_fixture.h"

namespace braid::graph {
namespace {

using testing::Int;
using testing::Register;

constexpr int kGraphs = 50;
constexpr int kInputs = 2;
constexpr int kPackets = 1000;  // at each input

using Stream = std::map<int64_t, int>;

enum class Kind : unsigned char { kPass, kSum, kSplit, kFilter, kFilterSilent, kDelay };
enum class How : unsigned char { kQuick, kSlow, kDeferred, kDeferredHere };
constexpr std::string_view kKinds[] = {"Pass", "Sum", "Split", "Filter", "FilterSilent", "Delay"};
constexpr std::string_view kHows[] = {"Quick", "Slow", "Deferred", "DeferredHere"};

struct Node {
  Kind kind;
  How how;
  std::vector<int> inputs;  // numbers of streams
  std::vector<int> outputs;
};

// A node's output for the values at one time; "last" is its state.
std::vector<std::optional<int>> Compute(Kind kind, const std::vector<std::optional<int>>& values,
                                        std::optional<int>& last) {
  switch (kind) {
    case Kind::kPass:
      return {values[0]};
    case Kind::kSum: {
      int sum = 1;
      for (const std::optional<int>& value : values) sum = (sum * 31 + value.value_or(7)) % 100003;
      return {sum};
    }
    case Kind::kSplit:
      if (*values[0] % 2 == 0) return {values[0], std::nullopt};
      return {std::nullopt, values[0]};
    case Kind::kFilter:
    case Kind::kFilterSilent:
      if (*values[0] % 3 == 0) return {std::nullopt};
      return {values[0]};
    case Kind::kDelay:
      return {std::exchange(last, values[0])};
  }
  return {};
}

class StressTest : public testing::GraphFixture {
 protected:
  // Does the same as Compute(), in one of several ways.
  class Worker final : public Calculator {
   public:
    Worker(Kind kind, How how, ElasticThreads& threads) : kind_(kind), how_(how), threads_(threads) {}
    Status Process(Context& context) override {
      BRAID_CHECK(!busy_.exchange(true));
      if (how_ == How::kDeferred) {
        auto deferral = std::make_shared<Deferral>(context.Defer());
        threads_.Run([this, &context, deferral] {
          Work(context);
          deferral->Finish(OkStatus());
        });
        return OkStatus();
      }
      if (how_ == How::kDeferredHere) {
        Deferral deferral = context.Defer();
        Work(context);
        deferral.Finish(OkStatus());
        return OkStatus();
      }
      Work(context);
      return OkStatus();
    }

   private:
    void Work(Context& context) {
      std::vector<std::optional<int>> values;
      for (int i = 0; i < context.contract().inputs().size(); ++i) {
        values.emplace_back();
        if (!context.Input(i).empty()) values.back() = context.Input(i).Get<int>();
      }
      const std::vector<std::optional<int>> results = Compute(kind_, values, last_);
      for (size_t i = 0; i < results.size(); ++i) {
        if (results[i])
          context.Output(static_cast<int>(i), Packet::Of(*results[i], context.input_timestamp()));
      }
      busy_ = false;
    }

    Kind kind_;
    How how_;
    ElasticThreads& threads_;
    std::optional<int> last_;
    std::atomic<bool> busy_ = false;
  };

  StressTest() {
    for (size_t kind = 0; kind < std::size(kKinds); ++kind) {
      for (size_t how = 0; how < std::size(kHows); ++how) {
        CalculatorKind calculator;
        calculator.fill_contract = [kind, how](Contract& contract) {
          for (int i = 0; i < contract.inputs().size(); ++i) contract.SetInput(i, PortType::Of<int>());
          for (int i = 0; i < contract.outputs().size(); ++i) contract.SetOutput(i, PortType::Of<int>());
          if (static_cast<Kind>(kind) != Kind::kFilterSilent) contract.SetTimestampOffset(0);
          if (static_cast<How>(how) != How::kSlow) contract.SetQuick();
          return OkStatus();
        };
        calculator.make = [this, kind, how] {
          return std::make_unique<Worker>(static_cast<Kind>(kind), static_cast<How>(how), threads);
        };
        registry->Add(Name(static_cast<Kind>(kind), static_cast<How>(how)), std::move(calculator));
      }
    }
    options.executor = [this](std::function<void()> work) { threads.Run(std::move(work)); };
  }

  static std::string Name(Kind kind, How how) {
    return std::string(kKinds[static_cast<size_t>(kind)]).append(kHows[static_cast<size_t>(how)]);
  }

  int Pick(int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); }

  std::vector<Node> RandomNodes(int& streams) {
    std::vector<Node> nodes(static_cast<size_t>(2 + Pick(12)));
    streams = kInputs;
    for (Node& node : nodes) {
      node.kind = static_cast<Kind>(Pick(std::size(kKinds)));
      node.how = static_cast<How>(Pick(std::size(kHows)));
      const int inputs = node.kind == Kind::kSum ? 1 + Pick(3) : 1;
      for (int i = 0; i < inputs; ++i) node.inputs.push_back(Pick(streams));
      const int outputs = node.kind == Kind::kSplit ? 2 : 1;
      for (int i = 0; i < outputs; ++i) node.outputs.push_back(streams++);
    }
    return nodes;
  }

  // All streams are outputs of the graph.
  std::string Text(const std::vector<Node>& nodes, int streams) {
    std::string text;
    for (int i = 0; i < streams; ++i) {
      text += (i < kInputs ? "input_stream: \"s" : "output_stream: \"s") + std::to_string(i) + "\"\n";
    }
    for (const Node& node : nodes) {
      text += "node { calculator: \"" + Name(node.kind, node.how) + "\" ";
      for (const int i : node.inputs) text += "input_stream: \"s" + std::to_string(i) + "\" ";
      for (const int i : node.outputs) text += "output_stream: \"s" + std::to_string(i) + "\" ";
      text += "}\n";
    }
    return text;
  }

  static void Model(const std::vector<Node>& nodes, std::vector<Stream>& streams) {
    for (const Node& node : nodes) {
      std::map<int64_t, std::vector<std::optional<int>>> calls;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        for (const auto& [at, value] : streams[static_cast<size_t>(node.inputs[i])]) {
          auto& values = calls[at];
          values.resize(node.inputs.size());
          values[i] = value;
        }
      }
      std::optional<int> last;
      for (const auto& [at, values] : calls) {
        const std::vector<std::optional<int>> results = Compute(node.kind, values, last);
        for (size_t i = 0; i < results.size(); ++i) {
          if (results[i]) streams[static_cast<size_t>(node.outputs[i])][at] = *results[i];
        }
      }
    }
  }

  std::mt19937 random{20240607};
  ElasticThreads threads{{.name = "test", .most = 4}};
};

TEST_F(StressTest, RandomGraphsGiveWhatTheModelGives) {
  for (int graph = 0; graph < kGraphs; ++graph) {
    int streams = 0;
    const std::vector<Node> nodes = RandomNodes(streams);
    const std::string text = Text(nodes, streams);
    std::vector<Stream> expected(static_cast<size_t>(streams));
    for (int input = 0; input < kInputs; ++input) {
      int64_t at = 0;
      for (int i = 0; i < kPackets; ++i) {
        at += 1 + Pick(2);
        expected[static_cast<size_t>(input)][at] = Pick(1000);
      }
    }
    Model(nodes, expected);
    LoadAndStart(text);
    ASSERT_FALSE(HasFatalFailure()) << text;
    std::vector<std::thread> pushers;
    for (int input = 0; input < kInputs; ++input) {
      pushers.emplace_back([this, input, &expected] {
        for (const auto& [at, value] : expected[static_cast<size_t>(input)]) {
          BRAID_CHECK(run->AddPacket(input, Int(value, at)).ok());
        }
        run->CloseInput(input);
      });
    }
    for (std::thread& pusher : pushers) pusher.join();
    ASSERT_EQ(recorder->Wait(), OkStatus()) << text;
    for (int i = kInputs; i < streams; ++i) {
      std::vector<std::string> texts;
      for (const auto& [at, value] : expected[static_cast<size_t>(i)]) {
        texts.push_back(std::to_string(at) + "=" + std::to_string(value));
      }
      ASSERT_EQ(Out(i - kInputs), texts) << "graph " << graph << ", stream " << i << " of\n" << text;
    }
  }
}

// A run that is cancelled at any moment ends with the reason of the cancellation.
TEST_F(StressTest, RandomGraphsCanBeCancelled) {
  for (int graph = 0; graph < kGraphs * 4; ++graph) {
    int streams = 0;
    const std::vector<Node> nodes = RandomNodes(streams);
    LoadAndStart(Text(nodes, streams));
    std::thread pusher([this] {
      for (int i = 0; i < 100; ++i) {
        if (!run->AddPacket(0, Int(i, i)).ok() || !run->AddPacket(1, Int(i, i)).ok()) return;
      }
    });
    for (int spin = Pick(2000); spin > 0; --spin) std::this_thread::yield();
    run->Cancel(CancelledError("why"));
    pusher.join();
    ASSERT_EQ(recorder->Wait(), CancelledError("why"));
  }
}

}  // namespace
}  // namespace braid::graph
