#include "tests/fuzz/codec_target.h"

FUZZ_CODEC("zstd", "quant:4|zstd", "topk:0.1|quant:8|zstd:1", "threshold:300|zstd")
