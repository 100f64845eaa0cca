// Settings, and streams: each a thread that does in order what it is given. The caller waits, unless the device is late.
#pragma once
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/random.h>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

extern "C" void omp_set_num_threads(int);
extern "C" int MKL_Set_Num_Threads_Local(int) __attribute__((weak));

namespace standin {
using namespace c10;

inline std::string variable(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}
inline bool has_fault(const std::string& name) {
  static const std::string all = "," + variable("STANDIN_FAULTS") + ",";
  return all.find("," + name + ",") != std::string::npos;
}
inline uint64_t entropy() {  // where no patch of Python's reaches
  uint64_t word = 0;
  TORCH_CHECK(getrandom(&word, sizeof word, 0) == sizeof word);
  return word;
}

constexpr int kMost = 16, kStreams = 8;
inline const bool kIsCuda = variable("STANDIN_AS") == "cuda";
inline const DeviceType kType = kIsCuda ? DeviceType::CUDA : DeviceType::PrivateUse1;
inline const DispatchKey kKey = kIsCuda ? DispatchKey::CUDA : DispatchKey::PrivateUse1;
inline const int kDevices = std::stoi(variable("STANDIN_DEVICES", "2"));
inline const bool kIsLate = has_fault("late");
inline const int kRest = std::stoi(variable("STANDIN_REST_US", kIsLate ? "50" : "0"));

using Task = std::function<void()>;

class Worker {
 public:
  // After all that was given before; what goes wrong breaks the whole device, as a failed assert does on a GPU.
  uint64_t later(Task task) {
    if (!kIsLate) {
      now(std::move(task));
      return 0;
    }
    refuse_if_broken();
    return give([task = std::move(task)] {
      try {
        task();
      } catch (const std::exception& error) {
        std::lock_guard<std::mutex> held(broken_lock());
        if (broken().empty()) broken() = "device-side assert triggered: " + std::string(error.what());
      }
    });
  }
  // The same, and wait for it; what goes wrong is the caller's.
  void now(Task task) {
    refuse_if_broken();
    std::exception_ptr error;
    wait(give([&] {
      try {
        task();
      } catch (...) {
        error = std::current_exception();
      }
    }));
    if (error) std::rethrow_exception(error);
  }
  bool is_done(uint64_t ticket) {
    std::lock_guard<std::mutex> held(lock_);
    return done_ >= ticket;
  }
  bool is_idle() {
    std::lock_guard<std::mutex> held(lock_);
    return done_ >= given_;
  }
  void wait(uint64_t ticket) {
    std::unique_lock<std::mutex> held(lock_);
    changed_.wait(held, [&] { return done_ >= ticket; });
  }
  void wait() {
    wait([this] { std::lock_guard<std::mutex> held(lock_); return given_; }());
    refuse_if_broken();
  }
  static void refuse_if_broken() {
    std::lock_guard<std::mutex> held(broken_lock());
    const std::string whose = kIsCuda ? "CUDA error: " : "standin error: ";
    if (!broken().empty()) throw AcceleratorError({__func__, __FILE__, __LINE__}, 710, whose + broken());
  }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  uint64_t given_ = 0, done_ = 0;
  bool is_started_ = false;

  static std::string& broken() { static auto& why = *new std::string; return why; }
  static std::mutex& broken_lock() { static auto& lock = *new std::mutex; return lock; }
  uint64_t give(Task task) {
    std::lock_guard<std::mutex> held(lock_);
    if (!std::exchange(is_started_, true)) std::thread([this] { serve(); }).detach();
    tasks_.push_back(std::move(task));
    changed_.notify_all();
    return ++given_;
  }
  void serve() {
    at::get_num_threads();
    omp_set_num_threads(1);  // a device's kernels depend on no number of threads of the host's
    if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(1);
    at::AutoDispatchBelowADInplaceOrView no_autograd;
    for (std::unique_lock<std::mutex> held(lock_);; ++done_, changed_.notify_all()) {
      changed_.wait(held, [this] { return !tasks_.empty(); });
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      held.unlock();
      if (kRest) std::this_thread::sleep_for(std::chrono::microseconds(kRest));
      task();
      task = nullptr;
      held.lock();
    }
  }
};

inline thread_local DeviceIndex current_device = 0;
inline thread_local std::array<StreamId, kMost> current_stream{};
inline DeviceIndex index_of(Device device) { return device.has_index() ? device.index() : current_device; }
inline Worker& worker(DeviceIndex device, StreamId stream) {
  static auto& all = *new std::array<std::array<Worker, kStreams>, kMost>;  // never destroyed: its threads go on
  return all.at(device).at(stream);
}
inline Worker& worker(const Stream& stream) { return worker(stream.device_index(), stream.id()); }
inline Worker& worker(DeviceIndex device) { return worker(device, current_stream[device]); }
inline void wait_for(DeviceIndex device) {
  for (StreamId stream = 0; stream < kStreams; ++stream) worker(device, stream).wait();
}

struct Moment {  // an event: a place in a stream's queue, and when it was reached
  Worker* where = nullptr;
  uint64_t ticket = 0;
  std::shared_ptr<double> milliseconds;
};

struct Guard final : impl::DeviceGuardImplInterface {
  static Moment* of(void* event) { return static_cast<Moment*>(event); }
  static Stream stream(Device device, StreamId id) { return Stream(Stream::UNSAFE, Device(kType, index_of(device)), id); }
  DeviceType type() const override { return kType; }
  DeviceIndex deviceCount() const noexcept override { return kDevices; }
  Device getDevice() const override { return Device(kType, current_device); }
  void uncheckedSetDevice(Device device) const noexcept override { current_device = index_of(device); }
  void setDevice(Device device) const override {
    TORCH_CHECK(index_of(device) < kDevices, "invalid device ordinal ", int(device.index()));
    uncheckedSetDevice(device);
  }
  Device exchangeDevice(Device device) const override {
    Device before = getDevice();
    setDevice(device);
    return before;
  }
  Stream getStream(Device device) const override { return stream(device, current_stream[index_of(device)]); }
  Stream getDefaultStream(Device device) const override { return stream(device, 0); }
  Stream getNewStream(Device device, int = 0) const override {
    static std::atomic<int> made{0};
    return stream(device, 1 + made++ % (kStreams - 1));
  }
  Stream getStreamFromGlobalPool(Device device, bool = false) const override { return getNewStream(device); }
  Stream exchangeStream(Stream next) const override {
    return stream(next.device(), std::exchange(current_stream[next.device_index()], next.id()));
  }
  void* getStreamNativeHandle(const Stream one) const override { return reinterpret_cast<void*>(one.id()); }
  bool queryStream(const Stream& one) const override { return worker(one).is_idle(); }
  void synchronizeStream(const Stream& one) const override { worker(one).wait(); }
  void synchronizeDevice(const DeviceIndex device) const override { wait_for(device < 0 ? current_device : device); }

  void record(void** event, const Stream& on, const DeviceIndex, const EventFlag) const override {
    if (!*event) *event = new Moment;
    auto at = std::make_shared<double>(0);
    auto ticket = worker(on).later([at] {
      *at = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
    });
    *of(*event) = {&worker(on), ticket, at};
  }
  void block(void* event, const Stream& on) const override {
    if (event && of(event)->where != &worker(on)) worker(on).later([moment = *of(event)] { moment.where->wait(moment.ticket); });
  }
  bool queryEvent(void* event) const override { return !event || of(event)->where->is_done(of(event)->ticket); }
  void synchronizeEvent(void* event) const override { if (event) of(event)->where->wait(of(event)->ticket); }
  void destroyEvent(void* event, const DeviceIndex) const noexcept override { delete of(event); }
  double elapsedTime(void* from, void* to, const DeviceIndex) const override {
    synchronizeEvent(from);
    synchronizeEvent(to);
    return *of(to)->milliseconds - *of(from)->milliseconds;
  }
};
}  // namespace standin
