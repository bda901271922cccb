#include "tests/fuzz/codec_target.h"

FUZZ_CODEC("topk:0.1", "topk:0.01", "topk:0.5", "topk:0.2|quant:8", "topk:0.1|sortquant:3+1")
