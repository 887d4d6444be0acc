// Logical devices of simulated GPUs. TensorFlow's own factory of pluggable devices refuses to split one and knows no
// memory limit ("Pluggable device does not support virtual device setting"); this one does what the factory of real
// GPUs does, and makes devices of the same class. TensorFlow's C++ API.
#include "devices.h"

#include <climits>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "board.h"
#include "tensorflow/core/common_runtime/device/device_id.h"
#include "tensorflow/core/common_runtime/device/device_id_manager.h"
#include "tensorflow/core/common_runtime/pluggable_device/pluggable_device.h"
#include "tensorflow/core/common_runtime/pluggable_device/pluggable_device_factory.h"
#include "tensorflow/core/common_runtime/pluggable_device/pluggable_device_init.h"
#include "tensorflow/core/common_runtime/pluggable_device/pluggable_device_process_state.h"
#include "tensorflow/core/common_runtime/process_state.h"
#include "tensorflow/core/framework/device_factory.h"
#if __has_include("xla/tsl/framework/device_id_utils.h")
#include "xla/tsl/framework/device_id_utils.h"
#else
#include "tsl/framework/device_id_utils.h"
#endif

namespace lockstep {
namespace {

using tensorflow::Device;
using tensorflow::DeviceIdManager;
using tensorflow::DeviceType;
using tensorflow::SessionOptions;
using tensorflow::TfDeviceId;
using tsl::PlatformDeviceId;

constexpr int kPriority = 300;  // TensorFlow's own factory of pluggable devices has 220.

struct Logical {
  TfDeviceId id;
  PlatformDeviceId physical;
  int64_t memory_bytes;
};

class Factory : public tensorflow::PluggableDeviceFactory {
 public:
  Factory() : PluggableDeviceFactory(kDeviceType, kPlatform) {}

  absl::Status CreateDevices(const SessionOptions& options, const std::string& name_prefix,
                             std::vector<std::unique_ptr<Device>>* devices) override {
    TF_RETURN_IF_ERROR(tensorflow::ValidatePluggableDeviceMachineManager(kPlatform));
    const auto* platform = tensorflow::PluggableDeviceMachineManager(kPlatform);
    const int there = platform->VisibleDeviceCount();
    const auto wanted = options.config.device_count().find(kDeviceType);
    const int at_most = wanted == options.config.device_count().end() ? INT_MAX : wanted->second;
    if (there <= 0 || at_most <= 0) return absl::OkStatus();
    std::vector<PlatformDeviceId> visible;
    TF_RETURN_IF_ERROR(
        tsl::ParseVisibleDeviceList(options.config.gpu_options().visible_device_list(), there, &visible));
    int id = 0;
    for (size_t at = 0; at < visible.size() && static_cast<int>(at) < at_most; ++at) {
      std::vector<int64_t> limits;
      TF_RETURN_IF_ERROR(Limits(options.config.gpu_options(), static_cast<int>(at), visible[at], &limits));
      for (const int64_t limit : limits)
        TF_RETURN_IF_ERROR(Create(options, name_prefix, {TfDeviceId(id++), visible[at], limit}, devices));
    }
    return absl::OkStatus();
  }

  // What `tf.config.experimental.get_device_details` says of a physical device.
  absl::Status GetDeviceDetails(int index, std::unordered_map<std::string, std::string>* details) override {
    TF_RETURN_IF_ERROR(tensorflow::ValidatePluggableDeviceMachineManager(kPlatform));
    TF_RETURN_IF_ERROR(
        tensorflow::PluggableDeviceMachineManager(kPlatform)->ExecutorForDevice(index).status());  // which opens it
    (*details)["device_name"] = BoardOf(index).name();
    return absl::OkStatus();
  }

 private:
  // The memory of each logical device of one physical device, in bytes.
  static absl::Status Limits(const tensorflow::GPUOptions& asked, int at, PlatformDeviceId physical,
                             std::vector<int64_t>* limits) {
    int64_t free = 0, total = 0;
    TF_ASSIGN_OR_RETURN(auto* executor, tensorflow::PluggableDeviceMachineManager(kPlatform)
                                            ->ExecutorForDevice(physical.value()));
    if (!executor->DeviceMemoryUsage(&free, &total)) return absl::InternalError("simulated GPU: no memory usage");
    const int64_t rest = free - (free >> 5);
    const auto& split = asked.experimental().virtual_devices();
    if (at < split.size())
      for (const float megabytes : split.Get(at).memory_limit_mb()) {
        const int64_t limit = static_cast<int64_t>(megabytes) << 20;
        limits->push_back(limit > 0 ? limit : rest);
      }
    if (!limits->empty()) return absl::OkStatus();
    const double fraction = asked.per_process_gpu_memory_fraction();
    limits->push_back(fraction > 0 ? static_cast<int64_t>(static_cast<double>(total) * fraction) : rest);
    return absl::OkStatus();
  }

  static absl::Status Create(const SessionOptions& options, const std::string& name_prefix, const Logical& logical,
                             std::vector<std::unique_ptr<Device>>* devices) {
    TF_RETURN_IF_ERROR(
        DeviceIdManager::InsertTfPlatformDeviceIdPair(DeviceType(kDeviceType), logical.id, logical.physical));
    auto* state = tensorflow::PluggableDeviceProcessState::singleton(kDeviceType, kPlatform);
    auto* allocator = state->GetPluggableDeviceAllocator(options.config.gpu_options(), logical.id, logical.memory_bytes);
    if (allocator == nullptr) return absl::InternalError("simulated GPU: no allocator");
    const auto stats = allocator->GetStats();
    const int64_t memory_bytes = stats && stats->bytes_limit ? *stats->bytes_limit : logical.memory_bytes;
    tensorflow::DeviceLocality locality;
    locality.set_numa_node(0);
    locality.set_bus_id(1);
    const Board& board = BoardOf(logical.physical.value());
    auto device = std::make_unique<tensorflow::PluggableDevice>(
        options, absl::StrCat(name_prefix, "/device:", kDeviceType, ":", logical.id.value()), kDeviceType, kPlatform,
        tensorflow::Bytes(memory_bytes), locality, logical.id,
        absl::StrCat("device: ", logical.physical.value(), ", name: ", board.name(), ", pci bus id: ", board.bus()),
        allocator, tensorflow::ProcessState::singleton()->GetCPUAllocator(0), /*sync_every_op=*/false);
    TF_RETURN_IF_ERROR(device->Init(options));
    devices->push_back(std::move(device));
    return absl::OkStatus();
  }
};

}  // namespace

void RegisterDevices() {
  tensorflow::DeviceFactory::Register(kDeviceType, std::make_unique<Factory>(), kPriority,
                                      /*is_pluggable_device=*/true);
}

}  // namespace lockstep
