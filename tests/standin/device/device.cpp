// A device for PyTorch that is not there: CPU kernels over memory that no CPU tensor sees. See the README beside it.
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>
#include "memory.h"
#include "sums.h"

namespace standin {
// ------------------------------------------------------------------------------------------------------- generators
// Two numbers on the host, as CUDA's: every call takes its share when it is made, and draws when its turn comes.
class Numbers final : public GeneratorImpl {
 public:
  explicit Numbers(DeviceIndex device) : GeneratorImpl(Device(kType, device), DispatchKeySet(kKey)) {}
  void set_current_seed(uint64_t seed) override { state_ = {seed, 0}; }
  uint64_t current_seed() const override { return state_[0]; }
  void set_offset(uint64_t offset) override { state_[1] = offset; }
  uint64_t get_offset() const override { return state_[1]; }
  uint64_t seed() override {
    set_current_seed(entropy() >> 11);
    return state_[0];
  }
  intrusive_ptr<TensorImpl> get_state() const override {
    auto state = at::detail::empty_cpu({sizeof state_}, kByte);
    std::memcpy(state.mutable_data_ptr(), state_.data(), sizeof state_);
    return state.getIntrusivePtr();
  }
  void set_state(const TensorImpl& state) override {
    TORCH_CHECK(state.device().is_cpu() && state.numel() == sizeof state_, "RNG state is wrong size");
    std::memcpy(state_.data(), state.data(), sizeof state_);
  }
  Numbers* clone_impl() const override {
    auto* twin = new Numbers(device().index());
    twin->state_ = state_;
    return twin;
  }
  uint64_t next() {
    state_[1] += 4;
    uint64_t word = (state_[0] ^ state_[1] * 0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93;
    return (word ^ word >> 32) * 0xD6E8FEB86659FD93 >> 32;
  }

 private:
  std::array<uint64_t, 2> state_{default_rng_seed_val, 0};
};
at::Generator& default_generator(DeviceIndex device) {
  static auto& all = *[] {
    auto* made = new std::vector<at::Generator>;
    for (DeviceIndex i = 0; i < kDevices; ++i) {
      made->push_back(at::make_generator<Numbers>(i));
      made->back().seed();
    }
    return made;
  }();
  return all.at(device < 0 ? current_device : device);
}
IValue drawn_from(const IValue& given, DeviceIndex device) {
  auto from = given.isNone() ? default_generator(device) : given.toGenerator();
  TORCH_CHECK(from.device().type() == kType, "Expected a '", Device(kType).str(), "' device type for generator but found '", from.device(), "'");
  std::lock_guard<std::mutex> held(from.mutex());
  return numbers_from(from.get<Numbers>()->next());
}

// ------------------------------------------------------------------------------------------------------------ hooks
template <class Interface>
struct Common : Interface {
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return kDevices > 0; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return kDevices; }
  DeviceIndex getCurrentDevice() const override { return current_device; }
  void setCurrentDevice(DeviceIndex device) const override { current_device = device; }
  DeviceIndex exchangeDevice(DeviceIndex device) const override { return std::exchange(current_device, device); }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override { return std::exchange(current_device, device); }
  const at::Generator& getDefaultGenerator(DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(DeviceIndex device) const override { return at::make_generator<Numbers>(device < 0 ? current_device : device); }
  bool isPinnedPtr(const void* data) const override { return PinnedMemory::the().holds(data); }
  Allocator* getPinnedMemoryAllocator() const override { return &PinnedMemory::the(); }
};
void resize_storage(StorageImpl& storage, size_t bytes) {
  const auto device = storage.device().index();
  DeviceGuard on(Device(kType, device));
  wait_for(device);
  auto fresh = Memory::the().allocate(bytes);
  if (fresh.get() && storage.data()) std::memcpy(fresh.get(), storage.data(), std::min(bytes, storage.nbytes()));
  storage.set_data_ptr_noswap(std::move(fresh));
  storage.set_nbytes(bytes);
}
struct OwnHooks final : Common<at::PrivateUse1HooksInterface> {
  void resizePrivateUse1Bytes(const Storage& storage, size_t bytes) const override { resize_storage(*storage.unsafeGetStorageImpl(), bytes); }
};
struct CudasHooks final : Common<at::CUDAHooksInterface> {
  bool hasCUDA() const override { return true; }
  bool hasCUDART() const override { return true; }
  DeviceIndex current_device() const override { return standin::current_device; }
  int getNumGPUs() const override { return kDevices; }
  Allocator* getCUDADeviceAllocator() const override { return &Memory::the(); }
  long versionCUDART() const override { return 13000; }
  std::string showConfig() const override { return "  - CUDA Runtime: a stand-in\n"; }
  void deviceSynchronize(DeviceIndex device) const override { wait_for(device); }
};

// ---------------------------------------------------------------------------------------------------------- tensors
bool is_ours(const Tensor& tensor) { return tensor.defined() && tensor.device().type() == kType; }
// Under deterministic algorithms what was never written is filled, with NaN or the largest number.
Tensor filled(Tensor made) {
  auto& context = at::globalContext();
  if (!made.numel() || !context.deterministicAlgorithms() || !context.deterministicFillUninitializedMemory()) return made;
  if (made.is_floating_point() || made.is_complex()) return made.fill_(std::nan(""));
  if (made.scalar_type() == kBool) return made.fill_(true);
  return made.fill_(int64_t((uint64_t(1) << (made.element_size() * 8 - (made.scalar_type() != kByte))) - 1));
}
ScalarType or_default(std::optional<ScalarType> dtype) { return dtype.value_or(typeMetaToScalarType(get_default_dtype())); }
Tensor empty(IntArrayRef size, std::optional<ScalarType> dtype, std::optional<Layout>, std::optional<Device> device, std::optional<bool>,
             std::optional<MemoryFormat> format) {
  DeviceGuard on(device.value_or(Device(kType)));
  return filled(at::detail::empty_generic(size, &Memory::the(), DispatchKeySet(kKey), or_default(dtype), format));
}
Tensor empty_strided(IntArrayRef size, IntArrayRef stride, std::optional<ScalarType> dtype, std::optional<Layout>, std::optional<Device> device,
                     std::optional<bool>) {
  DeviceGuard on(device.value_or(Device(kType)));
  return filled(at::detail::empty_strided_generic(size, stride, &Memory::the(), DispatchKeySet(kKey), or_default(dtype)));
}
// A tensor of the CPU's over the same bytes, which keeps none of them: as on a GPU, what is freed is used again at once,
// by whatever comes later in the same stream.
Tensor seen_by_kernels(const Tensor& tensor) {
  InferenceMode off(false);
  auto seen = at::from_blob(tensor.numel() ? const_cast<void*>(tensor.const_data_ptr()) : nullptr, tensor.sizes(), tensor.strides(),
                            tensor.options().device(kCPU).pinned_memory(false));
  seen._set_conj(tensor.is_conj());
  seen._set_neg(tensor.is_neg());
  return seen;
}
// A number that Python wrote counts less when a dtype is chosen.
Tensor wrapped_as(const Tensor& like, Tensor made) {
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}
Tensor copied(const Tensor& host) {
  InferenceMode off(false);
  return wrapped_as(host, host.detach().clone());
}
Tensor without_bits(const Tensor& tensor) {
  return wrapped_as(tensor, at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(kMeta).pinned_memory(false)));
}
Tensor made_like(const Tensor& shape, DeviceIndex device) {
  if (!shape.defined()) return shape;
  return empty_strided(shape.sizes(), shape.strides(), shape.scalar_type(), {}, Device(kType, device), {});
}

// ------------------------------------------------------------------------------------------------------- operations
// The value with every tensor in it replaced, and a device by `device`.
template <class Replace>
IValue replaced(const IValue& value, DeviceType device, const Replace& by) {
  if (value.isTensor()) return value.toTensor().defined() ? IValue(by(value.toTensor())) : value;
  if (value.isDevice()) return Device(device);
  if (value.isTensorList()) {
    List<Tensor> all;
    for (const Tensor& one : value.toTensorVector()) all.push_back(one.defined() ? by(one) : one);
    return all;
  }
  if (value.isOptionalTensorList()) {
    List<std::optional<Tensor>> all;
    for (std::optional<Tensor> one : value.toOptionalTensorList()) all.push_back(one && one->defined() ? std::make_optional<Tensor>(by(*one)) : std::nullopt);
    return all;
  }
  return value;
}

// Any operation that has no kernel of its own: the CPU's, in the stream's thread.
class Call {
 public:
  Call(const OperatorHandle& op, Stack* stack) : op_(op), schema_(op.schema()), given_(stack->end() - schema_.arguments().size(), stack->end()) {
    torch::jit::drop(*stack, given_.size());
    find_device();
  }
  void answer(Stack* stack) {
    DeviceGuard on(Device(kType, device_));
    order_ = order_of(schema_, given_);
    for (size_t i = 0; i < given_.size(); ++i)
      if (schema_.arguments()[i].type()->str().rfind("Generator", 0) == 0) given_[i] = drawn_from(given_[i], device_);
    if (has_room()) {
      worker(device_).later([work = work(for_kernels())]() mutable { work(); });
      for (size_t i = 0; i < schema_.returns().size(); ++i) stack->push_back(given_[written_by(i)]);
    } else if (auto shapes = kIsLate ? shapes_of_results() : std::nullopt) {
      answer_later(*shapes, stack);
    } else {
      answer_now(stack);
    }
  }

 private:
  OperatorHandle op_;
  const FunctionSchema& schema_;
  Stack given_;
  DeviceIndex device_ = -1;
  std::optional<Order> order_;

  void find_device() {
    bool is_beside_host = false;
    for (auto& value : given_) {
      if (value.isDevice() && value.toDevice().type() == kType) device_ = index_of(value.toDevice());
      replaced(value, kType, [&](const Tensor& tensor) {
        if (!is_ours(tensor)) {
          is_beside_host |= tensor.dim() > 0;
        } else {
          refuse_if(device_ >= 0 && device_ != tensor.device().index() && tensor.dim() > 0, tensor.device());
          device_ = tensor.device().index();
        }
        return tensor;
      });
    }
    if (device_ < 0) device_ = current_device;
    const bool takes_both = schema_.name().find("index") != std::string::npos || schema_.name().find("_fused") != std::string::npos;
    refuse_if(is_beside_host && !takes_both, Device(kCPU));
  }
  void refuse_if(bool are_two, Device other) {
    TORCH_CHECK(!are_two, "Expected all tensors to be on the same device, but found at least two devices, ", Device(kType, device_), " and ", other, "! (", schema_.name(), ")");
  }
  bool is_written(size_t i) { return schema_.arguments()[i].alias_info() && schema_.arguments()[i].alias_info()->isWrite(); }
  // Whether every result is an argument that is written to, and large enough.
  bool has_room() {
    for (auto& result : schema_.returns())
      if (!result.alias_info() || !result.alias_info()->isWrite()) return false;
    for (size_t i = 0; i < given_.size(); ++i)
      if (is_to_be_sized(i)) return false;
    return true;
  }
  // A result that is still empty: how large it will be, the kernel says.
  bool is_to_be_sized(size_t i) { return schema_.arguments()[i].is_out() && given_[i].isTensor() && !given_[i].toTensor().numel(); }
  size_t written_by(size_t result) {
    for (size_t i = 0; i < given_.size(); ++i)
      if (is_written(i) && *schema_.arguments()[i].alias_info() == *schema_.returns()[result].alias_info()) return i;
    TORCH_CHECK(false, schema_.name(), " returns what it was not given");
  }
  Stack for_kernels() {
    Stack stack;
    for (size_t i = 0; i < given_.size(); ++i) {
      auto seen = replaced(given_[i], kCPU, [&](const Tensor& tensor) { return is_ours(tensor) ? seen_by_kernels(tensor) : kIsLate ? copied(tensor) : tensor; });
      stack.push_back(is_to_be_sized(i) ? IValue(at::empty({0}, given_[i].toTensor().options().device(kCPU))) : seen);
    }
    return stack;
  }
  std::function<Stack()> work(Stack stack) {
    return [op = op_, order = order_, stack = std::move(stack)]() mutable {
      order ? add_up(op, stack, *order) : op.callBoxed(&stack);
      return std::move(stack);
    };
  }
  // As the meta device tells them; nothing where they depend on bits.
  std::optional<Stack> shapes_of_results() {
    for (auto& result : schema_.returns())
      if (result.alias_info() || result.type()->kind() != TypeKind::TensorType) return {};
    // In evaluation the CPU's kernel gives no statistics, whatever is said of it.
    if (schema_.name() == "aten::native_batch_norm" && !given_[5].toBool()) return {};
    Stack stack;
    for (auto& value : given_) stack.push_back(replaced(value, kMeta, without_bits));
    try {
      at::AutoDispatchBelowADInplaceOrView no_autograd;
      op_.callBoxed(&stack);
    } catch (const std::exception&) {
      return {};
    }
    return stack;
  }
  void answer_later(const Stack& shapes, Stack* stack) {
    std::vector<Tensor> targets;
    for (auto& shape : shapes) {
      auto made = made_like(shape.toTensor(), device_);
      targets.push_back(made.defined() ? seen_by_kernels(made) : made);
      stack->push_back(made);
    }
    worker(device_).later([work = work(for_kernels()), targets, name = schema_.name()]() mutable {
      auto results = work();
      for (size_t i = 0; i < targets.size(); ++i) {
        auto result = results[i].toTensor();
        if (!targets[i].defined()) continue;
        TORCH_CHECK(result.defined() && result.sizes() == targets[i].sizes() && result.scalar_type() == targets[i].scalar_type(), name,
                    " made another shape than it was said to");
        targets[i].copy_(result);
      }
    });
  }
  void answer_now(Stack* stack) {
    Stack results;
    auto task = work(for_kernels());
    worker(device_).now([&] { results = task(); });
    auto on_device = [&](const Tensor& host) {
      auto made = made_like(host, device_);
      worker(device_).later([target = seen_by_kernels(made), host]() mutable { target.copy_(host); });
      return made;
    };
    for (size_t i = 0; i < schema_.returns().size(); ++i) {
      const auto* alias = schema_.returns()[i].alias_info();
      TORCH_CHECK(!alias || alias->isWrite(), schema_.name(), " makes a view, and has no kernel here");
      if (!alias) {
        stack->push_back(replaced(results[i], kType, on_device));
        continue;
      }
      auto target = given_[written_by(i)];
      stack->push_back(target);
      if (!is_to_be_sized(written_by(i))) continue;
      target.toTensor().resize_(results[i].toTensor().sizes());
      worker(device_).later([into = seen_by_kernels(target.toTensor()), host = results[i].toTensor()]() mutable { into.copy_(host); });
    }
  }
};
void call(const OperatorHandle& op, DispatchKeySet, Stack* stack) { Call(op, stack).answer(stack); }

// -------------------------------------------------------------------------------------------------- kernels of its own
Tensor& copy_(Tensor& self, const Tensor& source, bool non_blocking) {
  if (!self.numel()) return self;
  const auto from = source.expand_as(self);
  const auto device = (is_ours(self) ? self : source).device().index();
  auto is_late = [&](const Tensor& host) { return non_blocking && host.is_pinned(); };
  if (is_ours(self) && is_ours(source) && self.device() != source.device()) worker(source.device().index()).wait();
  const bool waits = is_ours(self) ? is_ours(source) && self.device() != source.device() : !is_late(self);
  auto seen = is_ours(source) || is_late(source) ? seen_by_kernels(from) : copied(from);
  auto task = [into = seen_by_kernels(self), seen]() mutable { into.copy_(seen); };
  waits ? worker(device).now(task) : (void)worker(device).later(task);
  return self;
}
const Tensor& resize_(const Tensor& self, IntArrayRef size, std::optional<MemoryFormat> format) {
  DeviceGuard on(self.device());
  wait_for(self.device().index());
  return at::native::resize_(self, size, format);
}
std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  // The CPU's would draw from the CPU's generator.
  const bool drops = train.value_or(true);
  auto mask = at::empty_like(input, input.options().dtype(kBool));
  drops ? mask.bernoulli_(1 - p) : mask.fill_(true);
  return {input.mul(mask).mul_(!drops ? 1 : p < 1 ? 1 / (1 - p) : 0), mask};
}
// A step of an LSTM, in pieces: PyTorch has one kernel for it, for GPUs alone.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input, const Tensor& hidden, const Tensor& before, const std::optional<Tensor>& input_bias,
                                             const std::optional<Tensor>& hidden_bias) {
  auto gates = input + hidden;
  if (input_bias && input_bias->defined()) gates = gates + *input_bias + *hidden_bias;
  auto part = gates.chunk(4, 1);
  const auto in = part[0].sigmoid(), forget = part[1].sigmoid(), cell = part[2].tanh(), out = part[3].sigmoid();
  const auto after = forget * before + in * cell;
  return {out * after.tanh(), after, at::cat({in, forget, cell, out}, 1)};
}
std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const std::optional<Tensor>& grad_hidden, const std::optional<Tensor>& grad_cell, const Tensor& before,
                                                      const Tensor& after, const Tensor& workspace, bool has_bias) {
  auto part = workspace.chunk(4, 1);
  const auto &in = part[0], &forget = part[1], &cell = part[2], &out = part[3];
  const auto bent = after.tanh();
  auto or_zero = [&](const std::optional<Tensor>& grad) { return grad && grad->defined() ? *grad : at::zeros_like(after); };
  const auto hidden = or_zero(grad_hidden), along = hidden * out * (1 - bent * bent) + or_zero(grad_cell);
  const auto gates = at::cat({along * cell * in * (1 - in), along * before * forget * (1 - forget), along * in * (1 - cell * cell), hidden * bent * out * (1 - out)}, 1);
  return {gates, along * forget, has_bias ? gates.sum(0) : Tensor()};
}
bool has_no_ctc(const Tensor&, const Tensor&, IntArrayRef, IntArrayRef, int64_t) { return false; }
bool has_no_ctc_for(const Tensor&, const Tensor&, const Tensor&, const Tensor&, int64_t) { return false; }
int64_t choose_attention(const Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&, double, bool, std::optional<double>, bool) {
  return 0;  // by plain operations
}
void record_stream(Tensor& self, Stream stream) { Memory::the().recordStream(self.storage().data_ptr(), stream); }

void register_autocast() {
  static auto& others = *new torch::Library(torch::Library::IMPL, "_", DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  others.fallback(torch::CppFunction::makeFallthrough());
  static auto& m = *new torch::Library(torch::Library::IMPL, "aten", DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
#define LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define SINGLE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define SINGLE_RESULT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  using namespace at::autocast;
  AT_FORALL_LOWER_PRECISION_FP(LOWER)
  AT_FORALL_FP32(SINGLE)
  AT_FORALL_FP32_SET_OPT_DTYPE(SINGLE_RESULT)
  AT_FORALL_PROMOTE(WIDEST)
}
void register_kernels() {
  using torch::CppFunction;
  static auto& others = *new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
  others.fallback(CppFunction::makeFromBoxedFunction<&call>());
  static auto& aten = *new torch::Library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  // Composed of others where a device brings no kernel; on a GPU it is one. Losses would have to write to what they resize.
  for (const char* name : {"convolution", "convolution_backward", "native_layer_norm", "native_group_norm", "mse_loss", "smooth_l1_loss"}) aten.impl(name, CppFunction::makeFromBoxedFunction<&call>());
  aten.impl("empty.memory_format", &empty);
  aten.impl("empty_strided", &empty_strided);
  aten.impl("copy_", &copy_);
  aten.impl("resize_", &resize_);
  aten.impl("set_.source_Tensor", &at::native::set_tensor_);
  aten.impl("set_.source_Storage", static_cast<Tensor& (*)(Tensor&, Storage)>(&at::native::set_));
  aten.impl("set_.source_Storage_storage_offset", &at::native::set_storage_cpu_);
  aten.impl("as_strided", &at::native::as_strided_tensorimpl);
  aten.impl("view", &at::native::view);
  aten.impl("view_as_real", &at::native::view_as_real);
  aten.impl("view_as_complex", &at::native::view_as_complex);
  aten.impl("unfold", &at::native::unfold);
  aten.impl("_reshape_alias", &at::native::_reshape_alias);
  aten.impl("native_dropout", &native_dropout);
  aten.impl("_fused_sdp_choice", &choose_attention);
  aten.impl("_thnn_fused_lstm_cell", &lstm_cell);
  aten.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
  aten.impl("_use_cudnn_ctc_loss", &has_no_ctc);
  aten.impl("_use_miopen_ctc_loss", &has_no_ctc);
  aten.impl("_use_cudnn_ctc_loss.Tensor", &has_no_ctc_for);
  aten.impl("_use_miopen_ctc_loss.Tensor", &has_no_ctc_for);
  aten.impl("record_stream", &record_stream);
  if (!kIsCuda) register_autocast();  // under CUDA's name PyTorch has its own
}
}  // namespace standin

PYBIND11_MODULE(_standin, m) {
  c10::impl::registerDeviceGuard(standin::kType, new standin::Guard);
  c10::SetAllocator(standin::kType, &standin::Memory::the(), 1);
  if (standin::kIsCuda) {
    // PyTorch asked for its hooks before any extension can be loaded, and keeps the object of a build without CUDA. It
    // has no members and neither has ours: which functions it has is all that it holds, and is replaced.
    static_assert(sizeof(standin::CudasHooks) == sizeof(void*));
    auto& theirs = const_cast<at::CUDAHooksInterface&>(at::detail::getCUDAHooks());
    std::memcpy(static_cast<void*>(&theirs), static_cast<void*>(new standin::CudasHooks), sizeof(void*));
  } else {
    at::RegisterPrivateUse1HooksInterface(new standin::OwnHooks);
  }
  standin::register_kernels();
  m.def("count", [] { return standin::kDevices; });
  m.def("get_device", [] { return int(standin::current_device); });
  m.def("set_device", [](int device) { standin::Guard().setDevice(c10::Device(standin::kType, device)); });
  m.def("generator", [](int device) { return standin::default_generator(device); });
  m.def("synchronize", [](int device) { standin::wait_for(device); }, pybind11::call_guard<pybind11::gil_scoped_release>());
  m.def("sleep", [](int64_t cycles) {
    standin::worker(standin::current_device).later([cycles] { std::this_thread::sleep_for(std::chrono::nanoseconds(cycles)); });
  });
  m.def("resize_storage", [](c10::Storage storage, size_t bytes) { standin::resize_storage(*storage.unsafeGetStorageImpl(), bytes); });
}
