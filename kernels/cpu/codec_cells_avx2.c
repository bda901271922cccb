/* Means of cells. */
#include "kernels/cpu/codec_vec_avx2.h"

#define NAME(x) sl_avx2_##x
#include "kernels/cpu/body_cells.h"
