/* The event loop: libuv, wrapped so that uv.h stays in this room. The loop's thread never computes and never blocks. */
#ifndef SL_LINK_LOOP_H
#define SL_LINK_LOOP_H

#include <stdint.h>

#include "common/base/err.h"

struct sl_loop;
struct sl_timer;
struct sl_async;

enum sl_err sl_loop_open(struct sl_loop **out, struct sl_fail *fail) SL_MUST_CHECK;
/* Runs until sl_loop_stop, or until nothing is left open. */
void sl_loop_run(struct sl_loop *loop);
void sl_loop_stop(struct sl_loop *loop);
void sl_loop_close(struct sl_loop *loop); /* NULL is fine; owners close everything that is open on it first */
uint64_t sl_loop_now_ms(struct sl_loop *loop);

/* A timer, repeating (period_ms > 0) or one-shot. Loop thread. */
enum sl_err sl_timer_open(struct sl_timer **out, struct sl_loop *loop, void (*fn)(void *arg), void *arg,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_timer_start(struct sl_timer *timer, uint64_t delay_ms, uint64_t period_ms);
void sl_timer_stop(struct sl_timer *timer);
void sl_timer_close(struct sl_timer *timer);

/* Calls fn on the loop's thread after sl_async_wake, which any thread may call; several wakes may become one call.
 * sl_async_wake takes a struct sl_async as void *, so that it can be the wake function of a worker or loader. */
enum sl_err sl_async_open(struct sl_async **out, struct sl_loop *loop, void (*fn)(void *arg), void *arg,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_async_wake(void *async);
void sl_async_close(struct sl_async *async);

/* Calls fn for SIGINT and SIGTERM; also for SIGHUP (the terminal is gone), unless the process ignores it (nohup) or
 * sl_loop_on_hangup was called before. After sl_loop_close the process ignores these signals, so that a late one does
 * not change its exit status. If the process goes on, as between phases of a run, sl_loop_unsilence restores their
 * default actions. */
enum sl_err sl_loop_on_signals(struct sl_loop *loop, void (*fn)(void *arg, int signum), void *arg,
			       struct sl_fail *fail) SL_MUST_CHECK;
void sl_loop_unsilence(void);

/* Calls fn for SIGHUP, for programs to which it is not a request to end. */
enum sl_err sl_loop_on_hangup(struct sl_loop *loop, void (*fn)(void *arg), void *arg,
			      struct sl_fail *fail) SL_MUST_CHECK;

#endif
