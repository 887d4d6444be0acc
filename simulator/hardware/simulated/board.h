// What a simulated GPU holds: host memory up to a limit, and counts of what was moved to it and from it.
#ifndef LOCKSTEP_SIMULATED_BOARD_H_
#define LOCKSTEP_SIMULATED_BOARD_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace lockstep {

// TensorFlow's name of the platform, and how the name of every simulated device begins, by which others know it.
constexpr char kPlatform[] = "SIMULATED";
constexpr char kDeviceType[] = "GPU";

struct Traffic {
  std::atomic<int64_t> times{0};
  std::atomic<int64_t> bytes{0};

  void Add(uint64_t size) {
    times += 1;
    bytes += static_cast<int64_t>(size);
  }
};

class Board {
 public:
  // Gives the board the number of the device that it stands for, and its memory.
  void Open(int physical, int64_t memory_bytes);

  // Memory of the device, or nullptr where so much is not left.
  void* Take(uint64_t size);
  // Gives a block back; one that is not of this device is left alone.
  void Give(void* block);

  struct Usage {
    int64_t total = 0, used = 0, peak = 0, blocks = 0, largest = 0;
  };
  Usage usage();

  const std::string& name() const { return name_; }
  const std::string& bus() const { return bus_; }
  int physical() const { return physical_; }

  Traffic to_device, to_host, within;

 private:
  std::mutex mutex_;
  std::map<void*, uint64_t> blocks_;
  Usage usage_;
  std::string name_, bus_;
  int physical_ = 0;
};

// The board of the device that TensorFlow sees as number `ordinal`.
Board& BoardOf(int ordinal);

}  // namespace lockstep

#endif  // LOCKSTEP_SIMULATED_BOARD_H_
