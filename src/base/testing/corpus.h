// TryCorpus: runs a fuzzer's function on its seed inputs, for unit tests. It tries each input as it is, cut
// off at up to 100 places, and with random changes. The random changes are the same in each run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace braid {

// Each input has its own allocation of exactly its size, so that a sanitizer sees reads beyond its end.
inline void TryCorpus(const std::filesystem::path& folder,
                      const std::function<void(const uint8_t* data, size_t size)>& take) {
  constexpr size_t kCuts = 100;
  constexpr size_t kChanged = 200;
  const auto give = [&](const std::string& input) {
    const auto copy = std::make_unique<uint8_t[]>(input.size());
    std::copy(input.begin(), input.end(), copy.get());
    take(copy.get(), input.size());
  };
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::mt19937 random(1);
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(file), {}};
    give(input);
    const size_t step = input.size() / kCuts + 1;
    for (size_t size = 0; size < input.size(); size += step) give(input.substr(0, size));
    for (size_t i = 0; i < kChanged; ++i) {
      std::string changed = input;
      for (size_t changes = 1 + random() % 4; changes > 0; --changes) {
        const size_t at = random() % (changed.size() + 1);
        switch (random() % 3) {
          case 0:
            if (at < changed.size()) changed[at] = static_cast<char>(random());
            break;
          case 1:
            changed.insert(at, 1 + random() % 8, static_cast<char>(random()));
            break;
          default:
            changed.erase(at, 1 + random() % 8);
        }
      }
      give(changed);
    }
  }
}

}  // namespace braid
