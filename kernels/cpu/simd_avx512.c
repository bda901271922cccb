#define VL 16
#include "kernels/cpu/simd.h"

#include "kernels/cpu/vec.h"

#include "kernels/cpu/body_elem.h"

#include "kernels/cpu/body_math.h"

#include "kernels/cpu/body_bn.h"

#include "kernels/cpu/body_dw.h"

#include "kernels/cpu/body_gemm.h"

#include "kernels/cpu/body_pairs.h"

#include "kernels/cpu/body_group.h"

#include "kernels/cpu/body_held.h"

#include "kernels/cpu/body_wino.h"
#include "kernels/cpu/body_wino2.h"

const struct sl_cpu_simd sl_cpu_simd_avx512 = {
	.name = "avx512",
#include "kernels/cpu/body_table.h"
	.held_rows = held_rows,
	.held_most = HELD_ROWS,
#ifndef SL_SANITIZED
	.pairs_need_bf16 = true,
#endif
};
