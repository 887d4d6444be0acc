// Memory of simulated GPUs.
#include "board.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace lockstep {
namespace {

// As CUDA's allocator aligns.
constexpr size_t kAlignment = 256;
constexpr int kDevicesMax = 64;

}  // namespace

void Board::Open(int physical, int64_t memory_bytes) {
  char bus[32];
  std::snprintf(bus, sizeof bus, "ffff:%02x:00.0", static_cast<unsigned>(physical));
  std::lock_guard<std::mutex> lock(mutex_);
  physical_ = physical;
  usage_.total = memory_bytes;
  name_ = std::string(kPlatform) + " GPU " + std::to_string(physical) + " (host memory, CPU kernels)";
  bus_ = bus;
}

void* Board::Take(uint64_t size) {
  const auto wanted = static_cast<int64_t>(size);
  std::lock_guard<std::mutex> lock(mutex_);
  if (usage_.used + wanted > usage_.total) return nullptr;
  void* block = nullptr;
  if (posix_memalign(&block, kAlignment, std::max<size_t>(size, 1)) != 0) return nullptr;
  blocks_[block] = size;
  usage_.used += wanted;
  usage_.blocks += 1;
  usage_.peak = std::max(usage_.peak, usage_.used);
  usage_.largest = std::max(usage_.largest, wanted);
  return block;
}

void Board::Give(void* block) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(block);
  if (found == blocks_.end()) return;
  usage_.used -= static_cast<int64_t>(found->second);
  blocks_.erase(found);
  std::free(block);
}

Board::Usage Board::usage() {
  std::lock_guard<std::mutex> lock(mutex_);
  return usage_;
}

Board& BoardOf(int ordinal) {
  // Never destroyed: TensorFlow frees device memory while the process ends.
  static auto* boards = new std::array<Board, kDevicesMax>;
  return boards->at(static_cast<size_t>(ordinal));
}

}  // namespace lockstep
