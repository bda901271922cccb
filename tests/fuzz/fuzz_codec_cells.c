#include "tests/fuzz/codec_target.h"

FUZZ_CODEC("cells:2", "cells:3|topk:0.2|quant:8", "cells:2|quant:6")
