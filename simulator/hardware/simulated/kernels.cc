// Kernels of the simulated GPU: for every kernel that TensorFlow registers for a real GPU, the same registration
// (types, host-memory arguments, label) at a higher priority, computed by TensorFlow's own CPU kernel on the device's
// memory. So an op is placed where a real GPU would have it, and its arithmetic is that of the CPU. TensorFlow's C++
// API, so that there is one build for each version.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "all_reduce.h"
#include "board.h"
#include "devices.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace lockstep {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::DeviceType;
using tensorflow::KernelDef;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

constexpr int kPriority = 1000;

class Simulated : public OpKernel {
 public:
  Simulated(OpKernelConstruction* construction, OpKernel* inner) : OpKernel(construction), inner_(inner) {}
  void Compute(OpKernelContext* context) override { inner_->Compute(context); }
  bool IsExpensive() override { return inner_->IsExpensive(); }

 private:
  std::unique_ptr<OpKernel> inner_;
};

class SimulatedAsync : public AsyncOpKernel {
 public:
  SimulatedAsync(OpKernelConstruction* construction, OpKernel* inner) : AsyncOpKernel(construction), inner_(inner) {}
  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    inner_->AsAsync()->ComputeAsync(context, std::move(done));
  }
  bool IsExpensive() override { return inner_->IsExpensive(); }

 private:
  std::unique_ptr<OpKernel> inner_;
};

OpKernel* Create(OpKernelConstruction* construction) {
  const tensorflow::OpDef* op = nullptr;
  construction->SetStatus(tensorflow::OpRegistry::Global()->LookUpOpDef(construction->def().op(), &op));
  if (op == nullptr) return nullptr;
  tensorflow::NodeDef node = construction->def();
  // There is no NCCL behind it: what would go through NCCL goes through TensorFlow's ring on the device's memory.
  auto hint = node.mutable_attr()->find("communication_hint");
  if (hint != node.mutable_attr()->end() && absl::AsciiStrToLower(hint->second.s()) == "nccl")
    hint->second.set_s("ring");
  auto properties = std::make_shared<const tensorflow::NodeProperties>(
      op, std::move(node), construction->input_types(), construction->output_types());
  OpKernel* inner = nullptr;
  const auto status = tensorflow::CreateOpKernel(
      DeviceType("CPU"), construction->device(), construction->device()->GetAllocator(tsl::AllocatorAttributes()),
      construction->function_library(), construction->resource_manager(), properties,
      construction->graph_def_version(), &inner);
  if (!status.ok()) {
    construction->CtxFailure(tensorflow::errors::Unimplemented("the simulated GPU has no kernel for ",
                                                               construction->def().op(), " (the CPU has none): ",
                                                               std::string(status.message())));
    return nullptr;
  }
  if (inner->AsAsync() != nullptr) return new SimulatedAsync(construction, inner);
  return new Simulated(construction, inner);
}

void Register(const KernelDef& registered) {
  auto* def = new KernelDef(registered);  // the registry keeps it
  def->set_device_type(kDeviceType);
  def->set_priority(kPriority + registered.priority());
  tensorflow::kernel_factory::OpKernelRegistrar(def, "Simulated" + registered.op(),
                                                registered.op() == "NcclAllReduce" ? CreateAllReduce : Create);
}

}  // namespace
}  // namespace lockstep

extern "C" __attribute__((visibility("default"))) void TF_InitKernel() {
  lockstep::RegisterDevices();
  using tensorflow::KernelDef;
  auto kernels = tensorflow::GetFilteredRegisteredKernels(
      [](const KernelDef& def) { return def.device_type() == lockstep::kDeviceType; });
  // Collectives are registered for every device, and choose NCCL by themselves on a device of the type GPU.
  kernels.MergeFrom(tensorflow::GetFilteredRegisteredKernels([](const KernelDef& def) {
    return def.device_type() == "DEFAULT" && absl::StartsWith(def.op(), "Collective");
  }));
  for (const auto& registered : kernels.kernel()) lockstep::Register(registered);
}
