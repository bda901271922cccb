#include "tests/fuzz/codec_target.h"

FUZZ_CODEC("quant:8", "quant:3", "quant:16", "quant:5,per=channel", "quant:1,per=sample", "quant:7,block=64")
