/* cuda.h: stands in for NVIDIA's header on machines that have no toolkit. */
#pragma once
#include "cuda_abi.h"
