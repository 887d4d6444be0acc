// How TensorFlow reaches a simulated device: allocation, streams, events, transfers.
#ifndef LOCKSTEP_SIMULATED_EXECUTOR_H_
#define LOCKSTEP_SIMULATED_EXECUTOR_H_

#include "tensorflow/c/experimental/stream_executor/stream_executor.h"

namespace lockstep {

// Fills in the functions of a stream executor, and of its timers.
void FillExecutor(SP_StreamExecutor* executor);
void FillTimerFns(SP_TimerFns* functions);

}  // namespace lockstep

#endif  // LOCKSTEP_SIMULATED_EXECUTOR_H_
