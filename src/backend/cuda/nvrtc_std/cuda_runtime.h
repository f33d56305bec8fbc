// Empty: NVRTC itself declares the functions of CUDA that kernels call.
#pragma once
