// The interface of the shared library: everything declared between EXTENSOR_BEGIN_API and
// EXTENSOR_END_API. All other symbols are hidden.
#pragma once

#define EXTENSOR_BEGIN_API _Pragma("GCC visibility push(default)")
#define EXTENSOR_END_API _Pragma("GCC visibility pop")
