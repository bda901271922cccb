#include "tests/fuzz/codec_target.h"

FUZZ_CODEC("downsample:2", "downsample:3|quant:6", "downsample:2|lowrank:1")
