// NcclAllReduce without NCCL: the kernels of one step wait for each other by the name that they share, and the last
// one reduces what all have. As NCCL does, it refuses two that stand on one device.
#include "all_reduce.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "board.h"
#include "tensorflow/core/common_runtime/device/device_id.h"
#include "tensorflow/core/common_runtime/device/device_id_manager.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace lockstep {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

struct Part {
  OpKernelContext* context;
  AsyncOpKernel::DoneCallback done;
};

// The kernels that have come so far, by step and shared name.
class Meeting {
 public:
  // All parts, for the last one that comes; nothing for the others.
  std::vector<Part> Join(const std::string& key, Part part, size_t expected) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto& here = waiting_[key];
    here.push_back(std::move(part));
    if (here.size() < expected) return {};
    std::vector<Part> all = std::move(here);
    waiting_.erase(key);
    return all;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<Part>> waiting_;
};

// The number of the physical device below a logical one, or -1.
int PhysicalOf(const OpKernelContext* context) {
  tsl::PlatformDeviceId physical;
  const tensorflow::TfDeviceId logical(context->device()->parsed_name().id);
  const auto found = tensorflow::DeviceIdManager::TfToPlatformDeviceId(tensorflow::DeviceType(kDeviceType), logical,
                                                                        &physical);
  return found.ok() ? physical.value() : -1;
}

template <typename T>
void ReduceAs(const std::vector<Part>& parts, const std::string& reduction) {
  const auto size = parts[0].context->input(0).NumElements();
  std::vector<T> total(static_cast<size_t>(size));
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const T* from = parts[rank].context->input(0).flat<T>().data();
    for (int64_t at = 0; at < size; ++at) {
      T& sum = total[static_cast<size_t>(at)];
      if (rank == 0) sum = from[at];
      else if (reduction == "sum") sum = sum + from[at];
      else if (reduction == "prod") sum = sum * from[at];
      else if (reduction == "min") sum = std::min(sum, from[at]);
      else sum = std::max(sum, from[at]);
    }
  }
  for (const Part& part : parts)
    std::memcpy(part.context->mutable_output(0)->flat<T>().data(), total.data(), total.size() * sizeof(T));
}

class AllReduce : public AsyncOpKernel {
 public:
  explicit AllReduce(OpKernelConstruction* construction) : AsyncOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("reduction", &reduction_));
    OP_REQUIRES_OK(construction, construction->GetAttr("num_devices", &devices_));
    OP_REQUIRES_OK(construction, construction->GetAttr("shared_name", &name_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    static auto* meeting = new Meeting;
    Tensor* output = nullptr;
    OP_REQUIRES_OK_ASYNC(context, context->allocate_output(0, context->input(0).shape(), &output), done);
    auto parts = meeting->Join(absl::StrCat(context->step_id(), ";", name_), {context, std::move(done)},
                               static_cast<size_t>(devices_));
    if (parts.empty()) return;
    // The order of the sum is that of the devices, whoever came last.
    std::sort(parts.begin(), parts.end(), [](const Part& one, const Part& other) {
      return one.context->device()->name() < other.context->device()->name();
    });
    const absl::Status status = Reduce(parts);
    for (Part& part : parts) {
      if (!status.ok()) part.context->CtxFailure(status);
      part.done();
    }
  }

 private:
  absl::Status Reduce(const std::vector<Part>& parts) const {
    std::set<int> physical;
    for (const Part& part : parts)
      if (!physical.insert(PhysicalOf(part.context)).second)
        return tensorflow::errors::InvalidArgument("simulated NCCL: two replicas stand on one GPU (",
                                                   part.context->device()->name(), "), which NCCL refuses");
    switch (parts[0].context->input(0).dtype()) {
      case tensorflow::DT_FLOAT: ReduceAs<float>(parts, reduction_); break;
      case tensorflow::DT_DOUBLE: ReduceAs<double>(parts, reduction_); break;
      case tensorflow::DT_HALF: ReduceAs<Eigen::half>(parts, reduction_); break;
      case tensorflow::DT_BFLOAT16: ReduceAs<tensorflow::bfloat16>(parts, reduction_); break;
      case tensorflow::DT_INT32: ReduceAs<tensorflow::int32>(parts, reduction_); break;
      case tensorflow::DT_INT64: ReduceAs<int64_t>(parts, reduction_); break;
      default: return tensorflow::errors::Unimplemented("simulated NcclAllReduce: this type");
    }
    return absl::OkStatus();
  }

  std::string reduction_, name_;
  int devices_ = 0;
};

}  // namespace

tensorflow::OpKernel* CreateAllReduce(OpKernelConstruction* construction) { return new AllReduce(construction); }

}  // namespace lockstep
