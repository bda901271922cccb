/* Access to libuv; only files of this room include it. */
#ifndef SL_LINK_LOOP_UV_H
#define SL_LINK_LOOP_UV_H

#include <uv.h>

#include "common/link/loop.h"

uv_loop_t *sl_loop_uv(struct sl_loop *loop);

/* Fills *fail from a libuv status and returns SL_ERR_OS. */
enum sl_err sl_uv_fail(struct sl_fail *fail, int status, const char *what);

#endif
