// The platform of simulated GPUs: how many there are, which of them are visible, and how TensorFlow is told.
#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "board.h"
#include "executor.h"
#include "tensorflow/c/experimental/stream_executor/stream_executor.h"

namespace {

using lockstep::Board;
using lockstep::BoardOf;

constexpr char kCountVariable[] = "LOCKSTEP_SIMULATED_GPUS";
constexpr char kMemoryVariable[] = "LOCKSTEP_SIMULATED_GPU_MEMORY_MB";
constexpr long kCount = 4, kCountMax = 64, kMemoryMb = 4096;

void Ok(TF_Status* status) { TF_SetStatus(status, TF_OK, ""); }

long Number(const char* variable, long otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? std::strtol(text, nullptr, 10) : otherwise;
}

// As for real GPUs, CUDA_VISIBLE_DEVICES hides devices: a list of numbers, which ends at the first that is none.
std::vector<int> Visible() {
  const long count = std::min(std::max(Number(kCountVariable, kCount), 0L), kCountMax);
  std::vector<int> visible;
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) {
    for (int index = 0; index < count; ++index) visible.push_back(index);
    return visible;
  }
  for (std::istringstream parts(text); parts.good();) {
    std::string part;
    std::getline(parts, part, ',');
    char* end = nullptr;
    const long index = std::strtol(part.c_str(), &end, 10);
    if (part.empty() || *end != '\0' || index < 0 || index >= count) break;
    visible.push_back(static_cast<int>(index));
  }
  return visible;
}

void DeviceCount(const SP_Platform*, int* count, TF_Status* status) {
  *count = static_cast<int>(Visible().size());
  Ok(status);
}

void CreateDevice(const SP_Platform*, SE_CreateDeviceParams* params, TF_Status* status) {
  Board& board = BoardOf(params->ordinal);
  board.Open(Visible().at(static_cast<size_t>(params->ordinal)), Number(kMemoryVariable, kMemoryMb) << 20);
  SP_Device* device = params->device;
  device->struct_size = SP_DEVICE_STRUCT_SIZE;
  device->ordinal = params->ordinal;
  device->device_handle = &board;
  device->hardware_name = board.name().c_str();
  device->device_vendor = "simulated";
  device->pci_bus_id = board.bus().c_str();
  Ok(status);
}
void DestroyDevice(const SP_Platform*, SP_Device* device) { device->device_handle = nullptr; }

int32_t NumaNode(const SP_Device*) { return 0; }
int64_t Bandwidth(const SP_Device*) { return -1; }
double Gflops(const SP_Device*) { return -1; }
void CreateDeviceFns(const SP_Platform*, SE_CreateDeviceFnsParams* params, TF_Status* status) {
  *params->device_fns = {SP_DEVICE_FNS_STRUCT_SIZE, nullptr, NumaNode, Bandwidth, Gflops};
  Ok(status);
}
void DestroyDeviceFns(const SP_Platform*, SP_DeviceFns*) {}

void CreateStreamExecutor(const SP_Platform*, SE_CreateStreamExecutorParams* params, TF_Status* status) {
  lockstep::FillExecutor(params->stream_executor);
  Ok(status);
}
void DestroyStreamExecutor(const SP_Platform*, SP_StreamExecutor*) {}
void CreateTimerFns(const SP_Platform*, SP_TimerFns* functions, TF_Status* status) {
  lockstep::FillTimerFns(functions);
  Ok(status);
}
void DestroyTimerFns(const SP_Platform*, SP_TimerFns*) {}
void DestroyPlatform(SP_Platform*) {}
void DestroyPlatformFns(SP_PlatformFns*) {}

}  // namespace

extern "C" __attribute__((visibility("default"))) void SE_InitPlugin(SE_PlatformRegistrationParams* params,
                                                                     TF_Status* status) {
  params->platform->struct_size = SP_PLATFORM_STRUCT_SIZE;
  params->platform->name = lockstep::kPlatform;
  params->platform->type = lockstep::kDeviceType;
  params->platform->supports_unified_memory = 0;
  params->platform->use_bfc_allocator = 1;
  params->platform->force_memory_growth = 0;
  params->destroy_platform = DestroyPlatform;
  params->destroy_platform_fns = DestroyPlatformFns;
  SP_PlatformFns* functions = params->platform_fns;
  functions->struct_size = SP_PLATFORM_FNS_STRUCT_SIZE;
  functions->get_device_count = DeviceCount;
  functions->create_device = CreateDevice;
  functions->destroy_device = DestroyDevice;
  functions->create_device_fns = CreateDeviceFns;
  functions->destroy_device_fns = DestroyDeviceFns;
  functions->create_stream_executor = CreateStreamExecutor;
  functions->destroy_stream_executor = DestroyStreamExecutor;
  functions->create_timer_fns = CreateTimerFns;
  functions->destroy_timer_fns = DestroyTimerFns;
  Ok(status);
}

// How often, and how much, was moved to a device, from it to the host, and within it: six numbers. For tests.
extern "C" __attribute__((visibility("default"))) void lockstep_traffic(int ordinal, int64_t* six) {
  const Board& board = BoardOf(ordinal);
  six[0] = board.to_device.times, six[1] = board.to_device.bytes;
  six[2] = board.to_host.times, six[3] = board.to_host.bytes;
  six[4] = board.within.times, six[5] = board.within.bytes;
}
