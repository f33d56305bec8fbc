// Calls of the old versions of symbols that glibc 2.35 and libstdc++ 12 have renewed. The linker's
// --wrap sends the library's calls here (cmake/OldSymbols.cmake). Both versions of hypot compute the
// same; the new one leaves out an obsolete way to handle errors. The new wait is declared noexcept.
#include <condition_variable>
#include <mutex>

extern "C" {

__asm__(".symver extensor_old_hypot,hypot@GLIBC_2.2.5");
__asm__(".symver extensor_old_hypotf,hypotf@GLIBC_2.2.5");
__asm__(
    ".symver extensor_old_wait,"
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
double extensor_old_hypot(double x, double y);
float extensor_old_hypotf(float x, float y);
void extensor_old_wait(std::condition_variable* condition, std::unique_lock<std::mutex>* lock);

double __wrap_hypot(double x, double y) { return extensor_old_hypot(x, y); }
float __wrap_hypotf(float x, float y) { return extensor_old_hypotf(x, y); }
void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable* condition, std::unique_lock<std::mutex>* lock) {
  extensor_old_wait(condition, lock);
}

}  // extern "C"
