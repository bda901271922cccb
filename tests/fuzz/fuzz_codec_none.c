#include "tests/fuzz/codec_target.h"

FUZZ_CODEC("none", "f16", "bf16")
