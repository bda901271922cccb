/* For `make analyse`: tells clang's analyser what a function of another file returns. */
#ifndef SL_SUPPORT_ANALYSE_H
#define SL_SUPPORT_ANALYSE_H

#include "common/base/err.h"

#define sl_fail_set(fail, code, ...)     ((sl_fail_set)(fail, code, __VA_ARGS__), (code))
#define sl_fail_at(fail, key, code, ...) ((sl_fail_at)(fail, key, code, __VA_ARGS__), (code))

#endif
