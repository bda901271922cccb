#define VL 4
#include "kernels/cpu/simd.h"

#include "kernels/cpu/vec.h"

#include "kernels/cpu/body_elem.h"

#include "kernels/cpu/body_math.h"

#include "kernels/cpu/body_bn.h"

#include "kernels/cpu/body_dw.h"

#include "kernels/cpu/body_gemm.h"

#include "kernels/cpu/body_pairs.h"

#include "kernels/cpu/body_group.h"

#include "kernels/cpu/body_wino.h"
#include "kernels/cpu/body_wino2.h"

const struct sl_cpu_simd sl_cpu_simd_neon = {
	.name = "neon",
#include "kernels/cpu/body_table.h"
};
