#include "tests/fuzz/codec_target.h"

FUZZ_CODEC("threshold:300", "threshold:1", "adaptive:0.5", "adaptive:0.1|quant:4", "threshold:450|quant:4",
	   "threshold:400|f16")
