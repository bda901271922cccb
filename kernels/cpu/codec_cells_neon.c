/* Means of cells. */
#include "kernels/cpu/codec_vec_neon.h"

#include "kernels/cpu/body_cells.h"
