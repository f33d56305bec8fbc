// Objects of the C++ library that a call uses without the GIL.
#pragma once

#include <map>
#include <string>
#include <thread>

#include "extensor/error.h"

namespace extensor::python {

// Marks an object while it lives. Make it, and end it, with the GIL, which guards the list.
class InUse {
 public:
  // ValueError if the object is marked, by another thread or by a call that has led to this one.
  InUse(const void* object, const char* call) : object_(object) {
    if (!users().emplace(object, std::this_thread::get_id()).second) refuse(call);
  }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  ~InUse() { users().erase(object_); }

  // ValueError if another thread has marked it.
  static void check(const void* object, const char* call) {
    const auto found = users().find(object);
    if (found != users().end() && found->second != std::this_thread::get_id()) refuse(call);
  }

 private:
  using Users = std::map<const void*, std::thread::id>;
  static Users& users() {
    static auto* all = new Users();
    return *all;
  }
  [[noreturn]] static void refuse(const char* call) {
    throw ValueError(std::string(call) +
                     ": another call uses the object (allowed: one call at a time)");
  }

  const void* object_;
};

}  // namespace extensor::python
