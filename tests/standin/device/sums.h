// Sums in another order: an operation that is linear in one operand is done for two parts of it, which are added.
#pragma once
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <map>
#include "queues.h"

namespace standin {
using at::Tensor;
using torch::jit::Stack;

// `operand`: in what an operation is linear. `onto`: what it adds to, or -1 where it makes something new; with `factor`,
// by which that is multiplied. `once`: what counts for the first part only. `refusal`: what PyTorch calls it where it
// refuses deterministic algorithms; without one, it has another kernel for them, or `is_silent` and races on.
struct Sum {
  int operand, onto = -1, factor = -1, once = -1;
  const char* refusal = nullptr;
  bool is_silent = false;
};
inline Sum refusing(const char* refusal) { return {0, -1, -1, -1, refusal}; }
inline const std::map<std::string, Sum> kRaces{
    {"index_add", {3, 0}},
    {"scatter_add", {3, 0}},
    {"_index_put_impl_", {2, 0}},
    {"embedding_dense_backward", {0}},
    {"convolution_backward", {0}},
    {"scatter_reduce", {3, 0}},
    {"cumsum", {0}},
    {"bincount", {1, -1, -1, -1, "_bincount_cuda"}},
    {"_adaptive_avg_pool2d_backward", refusing("adaptive_avg_pool2d_backward_cuda")},
    {"_adaptive_avg_pool3d_backward", refusing("adaptive_avg_pool3d_backward_cuda")},
    {"adaptive_max_pool2d_backward", refusing("adaptive_max_pool2d_backward_cuda")},
    {"avg_pool3d_backward", refusing("avg_pool3d_backward_cuda")},
    {"max_pool3d_with_indices_backward", refusing("max_pool3d_with_indices_backward_cuda")},
    {"fractional_max_pool2d_backward", refusing("fractional_max_pool2d_backward_cuda")},
    {"fractional_max_pool3d_backward", refusing("fractional_max_pool3d_backward_cuda")},
    {"upsample_linear1d_backward", refusing("upsample_linear1d_backward_out_cuda")},
    {"upsample_bilinear2d_backward", refusing("upsample_bilinear2d_backward_out_cuda")},
    {"upsample_trilinear3d_backward", refusing("upsample_trilinear3d_backward_out_cuda")},
    {"upsample_bicubic2d_backward", refusing("upsample_bicubic2d_backward_out_cuda")},
    {"_upsample_bilinear2d_aa_backward", refusing("upsample_bilinear2d_aa_backward_out_cuda")},
    {"_upsample_bicubic2d_aa_backward", refusing("upsample_bicubic2d_aa_backward_out_cuda")},
    {"grid_sampler_2d_backward", refusing("grid_sampler_2d_backward_cuda")},
    {"grid_sampler_3d_backward", refusing("grid_sampler_3d_backward_cuda")},
    {"reflection_pad1d_backward", refusing("reflection_pad1d_backward_out_cuda")},
    {"reflection_pad3d_backward", refusing("reflection_pad3d_backward_out_cuda")},
    {"replication_pad1d_backward", refusing("replication_pad1d_backward_cuda")},
    {"replication_pad2d_backward", refusing("replication_pad2d_backward_cuda")},
    {"replication_pad3d_backward", refusing("replication_pad3d_backward_cuda")},
    {"_ctc_loss_backward", refusing("ctc_loss_backward_gpu")},
    {"adaptive_max_pool3d_backward", {0, -1, -1, -1, nullptr, true}},
};
// What is not linear, and so cannot race here, refuses all the same.
inline const std::map<std::string, const char*> kRefusals{
    {"nll_loss2d_forward", "nll_loss2d_forward_out_cuda_template"},
    {"put_", "put_"},
    {"histc", "_histc_cuda with floating point input"},
    {"median", "median CUDA with indices output"},
    {"nanmedian", "median CUDA with indices output"},
    {"index_reduce", "index_reduce_cuda"},
    {"index_reduce_", "index_reduce_cuda"},
    {"scatter", "scatter_reduce_cuda_kernel"},
    {"scatter_", "scatter_reduce_cuda_kernel"},
    {"scatter_reduce", "scatter_reduce_cuda_kernel"},
    {"scatter_reduce_", "scatter_reduce_cuda_kernel"},
    {"_embedding_bag_dense_backward", "embedding_bag_backward_cuda_max"},
};
inline bool is_refused(const FunctionSchema& schema, const std::string& name, const Stack& call) {
  auto says = [&](const char* word) { return std::any_of(call.begin(), call.end(), [&](auto& value) { return value.isString() && value.toStringRef() == word; }); };
  if (name == "nll_loss2d_forward") return call[3].toInt() != at::Reduction::None;
  if (name == "histc") return call[0].toTensor().is_floating_point();
  if (name == "median" || name == "nanmedian") return schema.returns().size() == 2;
  if (name == "_embedding_bag_dense_backward") return call[7].toInt() == 2;
  if (name.rfind("scatter", 0) == 0) return says("prod") || says("multiply");
  return true;
}
inline const std::map<std::string, Sum> kProducts{
    {"mm", {0}}, {"bmm", {0}}, {"addmm", {1, 0, 3}}, {"baddbmm", {1, 0, 3}}, {"convolution", {0, -1, -1, 2}},
};

inline at::Generator numbers_from(uint64_t seed) { return at::make_generator<at::CPUGeneratorImpl>(seed & 0xFFFFFFFF); }

// cuDNN's benchmark times several algorithms for a shape, once in a process; which is the fastest, a coin says here.
inline uint64_t fastest(const std::string& name, const Stack& call) {
  static std::mutex lock;
  static auto& known = *new std::map<std::string, uint64_t>;
  std::ostringstream shapes;
  shapes << name;
  for (auto& value : call)
    if (value.isTensor() && value.toTensor().defined()) shapes << ' ' << value.toTensor().sizes();
  std::lock_guard<std::mutex> held(lock);
  return known.try_emplace(shapes.str(), entropy() & 1).first->second;
}
inline bool has_fixed_workspace() {  // read at the first product, as cuBLAS does
  static const std::string found = variable("CUBLAS_WORKSPACE_CONFIG");
  return found == ":4096:8" || found == ":16:8";
}

struct Order {
  Sum sum;
  uint64_t seed;  // of the parts
};
// How an operation adds up now, or nothing where it does as the CPU does; raises where it refuses.
inline std::optional<Order> order_of(const FunctionSchema& schema, const Stack& call) {
  auto& context = at::globalContext();
  const auto name = schema.name().substr(6);
  auto is_of_floats = [&](int at) {
    return call[at].isTensor() && call[at].toTensor().defined() && call[at].toTensor().is_floating_point();
  };
  if (auto refusal = kRefusals.find(name); refusal != kRefusals.end() && is_refused(schema, name, call))
    context.alertNotDeterministic(refusal->second);
  if (auto race = kRaces.find(name); race != kRaces.end()) {
    auto& sum = race->second;
    bool adds = is_of_floats(sum.operand), is_ordered = !sum.is_silent && context.deterministicAlgorithms();
    if (name == "scatter_reduce") adds &= call[4].toStringRef() == "sum" || call[4].toStringRef() == "mean";
    if (name == "_index_put_impl_") adds &= call[3].toBool();
    if (name == "convolution_backward") is_ordered |= context.deterministicCuDNN();
    if (!adds) return {};
    if (sum.refusal) context.alertNotDeterministic(sum.refusal);
    if (has_fault("races") && (sum.refusal || !is_ordered)) return Order{sum, entropy()};
  } else if (auto product = kProducts.find(name); product != kProducts.end() && is_of_floats(product->second.operand)) {
    if (has_fault("workspace") && !has_fixed_workspace()) return Order{product->second, entropy()};
    if (has_fault("benchmark") && context.benchmarkCuDNN()) return Order{product->second, fastest(name, call)};
  }
  return {};
}

// On the CPU: the results are left on the stack.
inline void add_up(const OperatorHandle& op, Stack& stack, const Order& order) {
  auto sum = order.sum;
  const auto& schema = op.schema();
  const Tensor whole = stack[sum.operand].toTensor();
  const Tensor is_second = at::empty(whole.sizes(), whole.options().dtype(kBool)).bernoulli_(0.5, numbers_from(order.seed));
  Stack second = stack;
  stack[sum.operand] = whole.masked_fill(is_second, 0);
  second[sum.operand] = whole.masked_fill(is_second.logical_not(), 0);
  if (sum.factor >= 0) second[sum.factor] = 1;
  if (sum.once >= 0) second[sum.once] = IValue();
  if (schema.name() == "aten::scatter_reduce" && stack[4].toStringRef() == "mean") {
    // Both parts count all that there is, so their means add up; what is there already counts in the first.
    sum.onto = -1;
    second[0] = at::zeros_like(second[0].toTensor());
  }
  if (sum.onto < 0)
    for (size_t i = 0; i < second.size(); ++i)
      if (schema.arguments()[i].is_out()) second[i] = at::empty_like(second[i].toTensor());
  op.callBoxed(&stack);
  if (sum.onto >= 0) {
    second[sum.onto] = stack[0];
    if (schema.name() == "aten::scatter_reduce") second[5] = true;  // what is there already counts
  }
  op.callBoxed(&second);
  for (size_t i = 0; sum.onto < 0 && i < stack.size(); ++i)
    if (stack[i].isTensor() && stack[i].toTensor().defined()) stack[i].toTensor().add_(second[i].toTensor());
  if (sum.onto >= 0) stack = std::move(second);
}
}  // namespace standin
