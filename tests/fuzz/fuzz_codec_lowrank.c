#include "tests/fuzz/codec_target.h"

FUZZ_CODEC("lowrank:1", "lowrank:3", "lowrank:2|quant:8,per=sample", "lowrank:1|topk:0.5")
