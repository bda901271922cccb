#include "tests/fuzz/codec_target.h"

FUZZ_CODEC("randomk:0.1", "randomk:0.9", "randomk:0.3|quant:5")
