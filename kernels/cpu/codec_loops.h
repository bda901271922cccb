/* The codecs' loops of the CPU backend. */
#ifndef SL_CPU_CODEC_LOOPS_H
#define SL_CPU_CODEC_LOOPS_H

#include "common/codec/loops.h"

/* The codec loops of the level that sl_cpu_level_choose returns. For sl_backend_ops.codec_loops. */
const struct sl_codec_loops *sl_cpu_codec_loops(void);

extern const struct sl_codec_loops sl_cpu_codec_loops_avx512, sl_cpu_codec_loops_avx2, sl_cpu_codec_loops_neon;

#endif
