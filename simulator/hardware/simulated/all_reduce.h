// NcclAllReduce without NCCL.
#ifndef LOCKSTEP_SIMULATED_ALL_REDUCE_H_
#define LOCKSTEP_SIMULATED_ALL_REDUCE_H_

namespace tensorflow {
class OpKernel;
class OpKernelConstruction;
}  // namespace tensorflow

namespace lockstep {

tensorflow::OpKernel* CreateAllReduce(tensorflow::OpKernelConstruction* construction);

}  // namespace lockstep

#endif  // LOCKSTEP_SIMULATED_ALL_REDUCE_H_
