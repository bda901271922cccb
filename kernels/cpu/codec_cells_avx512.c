/* Means of cells. */
#include "kernels/cpu/codec_vec_avx512.h"

#define NAME(x) sl_avx512_##x
#include "kernels/cpu/body_cells.h"
