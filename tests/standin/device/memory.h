// Memory of a device: blocks are used again as they were left, in the order of the stream that had them.
#pragma once
#include <c10/core/CachingDeviceAllocator.h>
#include <cstring>
#include <map>
#include "queues.h"

namespace standin {
struct Block {
  DeviceIndex device;
  StreamId stream;
  size_t bytes;
  void* at = nullptr;
  bool is_used_elsewhere = false;  // on a stream that nobody waits for when it is freed: then it is never used again
};

class Memory final : public DeviceAllocator {
 public:
  DataPtr allocate(size_t bytes) override {
    const Device device(kType, current_device);
    if (!bytes) return {nullptr, nullptr, &release, device};
    auto block = std::make_unique<Block>(Block{current_device, current_stream[current_device], (bytes + 511) & ~size_t(511)});
    std::lock_guard<std::mutex> held(lock_);
    auto& kept = kept_[{block->device, block->stream, block->bytes}];
    if (kept.empty()) {
      block->at = fresh(block->device, block->bytes);
    } else {
      if (has_fault("rubbish")) std::swap(kept[entropy() % kept.size()], kept.back());
      block->at = kept.back();
      kept.pop_back();
    }
    stats_[block->device].allocated_bytes[0].increase(block->bytes);
    void* at = block->at;
    return {at, block.release(), &release, device};
  }
  DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    wait_for(current_device);
    std::memcpy(to, from, bytes);
  }
  void recordStream(const DataPtr& data, Stream stream) override {
    auto* block = static_cast<Block*>(data.get_context());
    if (block && block->stream != stream.id()) block->is_used_elsewhere = true;
  }
  bool initialized() override { return true; }
  CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override { return stats_.at(device); }
  void resetAccumulatedStats(DeviceIndex) override {}
  void resetPeakStats(DeviceIndex device) override {
    stats_.at(device).allocated_bytes[0].reset_peak();
    stats_.at(device).reserved_bytes[0].reset_peak();
  }
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) override {
    return {kRoom - stats_.at(device).reserved_bytes[0].current, kRoom};
  }
  void emptyCache(MempoolId_t = {0, 0}) override {
    for (DeviceIndex device = 0; device < kDevices; ++device) wait_for(device);
    std::lock_guard<std::mutex> held(lock_);
    for (auto& [key, kept] : kept_) {
      stats_[std::get<0>(key)].reserved_bytes[0].decrease(std::get<2>(key) * kept.size());
      for (void* at : kept) std::free(at);
    }
    kept_.clear();
  }
  static Memory& the() { static auto& one = *new Memory; return one; }

 private:
  inline static const size_t kRoom = std::stoull(variable("STANDIN_BYTES", "8589934592"));
  std::mutex lock_;
  std::map<std::tuple<DeviceIndex, StreamId, size_t>, std::vector<void*>> kept_;
  std::array<CachingDeviceAllocator::DeviceStats, kMost> stats_;

  void* fresh(DeviceIndex device, size_t bytes) {
    auto& reserved = stats_[device].reserved_bytes[0];
    void* at = nullptr;
    if (reserved.current + bytes > kRoom || posix_memalign(&at, 512, bytes))
      TORCH_CHECK_WITH(OutOfMemoryError, false, kIsCuda ? "CUDA" : "standin", " out of memory. Tried to allocate ", bytes,
                       " bytes on device ", int(device), ", of whose ", kRoom, " bytes ", reserved.current, " are taken");
    reserved.increase(bytes);
    if (has_fault("rubbish")) {
      // Floating-point numbers of every size among them, and no two alike.
      auto* words = static_cast<uint64_t*>(at);
      uint64_t word = entropy();
      for (size_t i = 0; i < bytes / 8; ++i) words[i] = word = word * 6364136223846793005ull + 1442695040888963407ull;
    } else {
      std::memset(at, 0, bytes);
    }
    return at;
  }
  static void release(void* context) {
    std::unique_ptr<Block> block(static_cast<Block*>(context));
    if (!block) return;
    auto& memory = the();
    std::lock_guard<std::mutex> held(memory.lock_);
    memory.stats_[block->device].allocated_bytes[0].decrease(block->bytes);
    if (!block->is_used_elsewhere) memory.kept_[{block->device, block->stream, block->bytes}].push_back(block->at);
  }
};

// Memory of the host from which a late copy may still be read when nobody holds it any more: it is never freed.
class PinnedMemory final : public Allocator {
 public:
  DataPtr allocate(size_t bytes) override {
    void* at = nullptr;
    TORCH_CHECK(!posix_memalign(&at, 512, bytes + 1), "out of memory");
    std::lock_guard<std::mutex> held(lock_);
    ends_[at] = static_cast<char*>(at) + bytes + 1;
    return {at, at, &release, Device(kCPU)};
  }
  DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
  bool holds(const void* data) {
    std::lock_guard<std::mutex> held(lock_);
    auto after = ends_.upper_bound(const_cast<void*>(data));
    return after != ends_.begin() && data < std::prev(after)->second;
  }
  static PinnedMemory& the() { static auto& one = *new PinnedMemory; return one; }

 private:
  std::mutex lock_;
  std::map<void*, void*> ends_;

  static void release(void*) {}
};
}  // namespace standin
