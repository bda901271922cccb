#include "tests/fuzz/codec_target.h"

FUZZ_CODEC("sortquant:6+2", "sortquant:3+1", "sortquant:12+4", "sortquant:9+3")
