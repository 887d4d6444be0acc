// The stream executor of simulated GPUs: everything is done when the call returns, so that streams and events are
// always complete. TensorFlow's C API (tensorflow/c/experimental/stream_executor/stream_executor.h).
#include "executor.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "board.h"

struct SP_Stream_st {};
struct SP_Event_st {};
struct SP_Timer_st {
  uint64_t start = 0, stop = 0;
};

namespace lockstep {
namespace {

constexpr size_t kHostAlignment = 64;

Board& Of(const SP_Device* device) { return BoardOf(device->ordinal); }

void Ok(TF_Status* status) { TF_SetStatus(status, TF_OK, ""); }

uint64_t Now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

// ---- memory

void Allocate(const SP_Device* device, uint64_t size, int64_t, SP_DeviceMemoryBase* memory) {
  memory->struct_size = SP_DEVICE_MEMORY_BASE_STRUCT_SIZE;
  memory->opaque = Of(device).Take(size);
  memory->size = memory->opaque == nullptr ? 0 : size;
}

void Deallocate(const SP_Device* device, SP_DeviceMemoryBase* memory) {
  Of(device).Give(memory->opaque);
  memory->opaque = nullptr;
  memory->size = 0;
}

void* AllocateHost(const SP_Device*, uint64_t size) {
  void* block = nullptr;
  return posix_memalign(&block, kHostAlignment, size == 0 ? 1 : size) == 0 ? block : nullptr;
}

void DeallocateHost(const SP_Device*, void* block) { std::free(block); }

TF_Bool AllocatorStats(const SP_Device* device, SP_AllocatorStats* stats) {
  const Board::Usage usage = Of(device).usage();
  stats->struct_size = SP_ALLOCATORSTATS_STRUCT_SIZE;
  stats->num_allocs = usage.blocks;
  stats->bytes_in_use = usage.used;
  stats->peak_bytes_in_use = usage.peak;
  stats->largest_alloc_size = usage.largest;
  stats->has_bytes_limit = 1;
  stats->bytes_limit = usage.total;
  return 1;
}

TF_Bool MemoryUsage(const SP_Device* device, int64_t* free_bytes, int64_t* total) {
  const Board::Usage usage = Of(device).usage();
  *total = usage.total;
  *free_bytes = usage.total - usage.used;
  return 1;
}

// ---- streams, events and timers

// A real GPU's driver does not survive a fork: what was opened in another process is an error here too.
pid_t opened_by = 0;

void CreateStream(const SP_Device*, SP_Stream* stream, TF_Status* status) {
  if (opened_by == 0) opened_by = getpid();
  if (opened_by != getpid()) {
    TF_SetStatus(status, TF_FAILED_PRECONDITION, "simulated GPU: it was opened before a fork and, as CUDA, cannot go on");
    return;
  }
  *stream = new SP_Stream_st;
  Ok(status);
}
void DestroyStream(const SP_Device*, SP_Stream stream) { delete stream; }
void StreamDependency(const SP_Device*, SP_Stream, SP_Stream, TF_Status* status) { Ok(status); }
void StreamStatus(const SP_Device*, SP_Stream, TF_Status* status) { Ok(status); }

void CreateEvent(const SP_Device*, SP_Event* event, TF_Status* status) {
  *event = new SP_Event_st;
  Ok(status);
}
void DestroyEvent(const SP_Device*, SP_Event event) { delete event; }
SE_EventStatus EventStatus(const SP_Device*, SP_Event) { return SE_EVENT_COMPLETE; }
void RecordEvent(const SP_Device*, SP_Stream, SP_Event, TF_Status* status) { Ok(status); }
void WaitForEvent(const SP_Device*, SP_Stream, SP_Event, TF_Status* status) { Ok(status); }

void CreateTimer(const SP_Device*, SP_Timer* timer, TF_Status* status) {
  *timer = new SP_Timer_st;
  Ok(status);
}
void DestroyTimer(const SP_Device*, SP_Timer timer) { delete timer; }
void StartTimer(const SP_Device*, SP_Stream, SP_Timer timer, TF_Status* status) {
  timer->start = Now();
  Ok(status);
}
void StopTimer(const SP_Device*, SP_Stream, SP_Timer timer, TF_Status* status) {
  timer->stop = Now();
  Ok(status);
}
uint64_t Nanoseconds(SP_Timer timer) { return timer->stop - timer->start; }

void BlockForEvent(const SP_Device*, SP_Event, TF_Status* status) { Ok(status); }
void BlockUntilDone(const SP_Device*, SP_Stream, TF_Status* status) { Ok(status); }
void SynchronizeAll(const SP_Device*, TF_Status* status) { Ok(status); }

TF_Bool HostCallback(const SP_Device*, SP_Stream, SE_StatusCallbackFn callback, void* argument) {
  TF_Status* status = TF_NewStatus();
  callback(argument, status);
  const bool ok = TF_GetCode(status) == TF_OK;
  TF_DeleteStatus(status);
  return ok;
}

// ---- transfers

void ToHostNow(const SP_Device* device, void* to, const SP_DeviceMemoryBase* from, uint64_t size, TF_Status* status) {
  Of(device).to_host.Add(size);
  std::memcpy(to, from->opaque, size);
  Ok(status);
}
void ToDeviceNow(const SP_Device* device, SP_DeviceMemoryBase* to, const void* from, uint64_t size, TF_Status* status) {
  Of(device).to_device.Add(size);
  std::memcpy(to->opaque, from, size);
  Ok(status);
}
void WithinNow(const SP_Device* device, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from, uint64_t size,
               TF_Status* status) {
  Of(device).within.Add(size);
  std::memmove(to->opaque, from->opaque, size);
  Ok(status);
}
void ToHost(const SP_Device* device, SP_Stream, void* to, const SP_DeviceMemoryBase* from, uint64_t size,
            TF_Status* status) {
  ToHostNow(device, to, from, size, status);
}
void ToDevice(const SP_Device* device, SP_Stream, SP_DeviceMemoryBase* to, const void* from, uint64_t size,
              TF_Status* status) {
  ToDeviceNow(device, to, from, size, status);
}
void Within(const SP_Device* device, SP_Stream, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from, uint64_t size,
            TF_Status* status) {
  WithinNow(device, to, from, size, status);
}

void MemZero(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* at, uint64_t size, TF_Status* status) {
  std::memset(at->opaque, 0, size);
  Ok(status);
}
void MemSet(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* at, uint8_t pattern, uint64_t size, TF_Status* status) {
  std::memset(at->opaque, pattern, size);
  Ok(status);
}
void MemSet32(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* at, uint32_t pattern, uint64_t size,
              TF_Status* status) {
  auto* words = static_cast<uint32_t*>(at->opaque);
  for (uint64_t index = 0; index < size / sizeof pattern; ++index) words[index] = pattern;
  Ok(status);
}

}  // namespace

void FillExecutor(SP_StreamExecutor* executor) {
  executor->struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE;
  executor->allocate = Allocate;
  executor->deallocate = Deallocate;
  executor->host_memory_allocate = AllocateHost;
  executor->host_memory_deallocate = DeallocateHost;
  executor->get_allocator_stats = AllocatorStats;
  executor->device_memory_usage = MemoryUsage;
  executor->create_stream = CreateStream;
  executor->destroy_stream = DestroyStream;
  executor->create_stream_dependency = StreamDependency;
  executor->get_stream_status = StreamStatus;
  executor->create_event = CreateEvent;
  executor->destroy_event = DestroyEvent;
  executor->get_event_status = EventStatus;
  executor->record_event = RecordEvent;
  executor->wait_for_event = WaitForEvent;
  executor->create_timer = CreateTimer;
  executor->destroy_timer = DestroyTimer;
  executor->start_timer = StartTimer;
  executor->stop_timer = StopTimer;
  executor->memcpy_dtoh = ToHost;
  executor->memcpy_htod = ToDevice;
  executor->memcpy_dtod = Within;
  executor->sync_memcpy_dtoh = ToHostNow;
  executor->sync_memcpy_htod = ToDeviceNow;
  executor->sync_memcpy_dtod = WithinNow;
  executor->block_host_for_event = BlockForEvent;
  executor->block_host_until_done = BlockUntilDone;
  executor->synchronize_all_activity = SynchronizeAll;
  executor->mem_zero = MemZero;
  executor->memset = MemSet;
  executor->memset32 = MemSet32;
  executor->host_callback = HostCallback;
}

void FillTimerFns(SP_TimerFns* functions) {
  functions->struct_size = SP_TIMER_FNS_STRUCT_SIZE;
  functions->nanoseconds = Nanoseconds;
}

}  // namespace lockstep
