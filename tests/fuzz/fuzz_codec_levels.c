#include "tests/fuzz/codec_target.h"

FUZZ_CODEC("terngrad", "terngrad,bucket=64", "qsgd:255", "qsgd:10,bucket=100", "qsgd:1,norm=max", "normal:1",
	   "normal:4", "hadamard|normal:4")
