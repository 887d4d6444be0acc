// Registers the factory that makes logical devices of simulated GPUs.
#ifndef LOCKSTEP_SIMULATED_DEVICES_H_
#define LOCKSTEP_SIMULATED_DEVICES_H_

namespace lockstep {

void RegisterDevices();

}  // namespace lockstep

#endif  // LOCKSTEP_SIMULATED_DEVICES_H_
