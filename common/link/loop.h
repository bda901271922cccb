/* The event loop: libuv, wrapped so that uv.h stays in this room. The loop's thread never computes and never blocks. */
#ifndef SL_LINK_LOOP_H
#define SL_LINK_LOOP_H

#include <stdint.h>

#include "common/base/err.h"

struct sl_loop;
struct sl_timer;
struct sl_async;

enum sl_err sl_loop_open(struct sl_loop **out, struct sl_fail *fail) SL_MUST_CHECK;
/* Until sl_loop_stop, or until nothing is left open. */
void sl_loop_run(struct sl_loop *loop);
void sl_loop_stop(struct sl_loop *loop);
void sl_loop_close(struct sl_loop *loop); /* NULL is fine; everything opened on it is closed first by its owner */
uint64_t sl_loop_now_ms(struct sl_loop *loop);

/* Repeating (period_ms > 0) or one-shot; loop thread. */
enum sl_err sl_timer_open(struct sl_timer **out, struct sl_loop *loop, void (*fn)(void *arg), void *arg,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_timer_start(struct sl_timer *timer, uint64_t delay_ms, uint64_t period_ms);
void sl_timer_stop(struct sl_timer *timer);
void sl_timer_close(struct sl_timer *timer);

/* sl_async_wake may be called from any thread (several wakes may become one call of fn on the loop's thread). It takes
 * a struct sl_async, and can itself be the wake of a worker or loader. */
enum sl_err sl_async_open(struct sl_async **out, struct sl_loop *loop, void (*fn)(void *arg), void *arg,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_async_wake(void *async);
void sl_async_close(struct sl_async *async);

/* SIGINT and SIGTERM; SIGHUP too, a terminal that is gone, unless the process ignores it (nohup) or sl_loop_on_hangup
 * came before. Behind sl_loop_close these are ignored: what listened to them is over, and its status stands. Where it
 * goes on, as a run with phases does, sl_loop_unsilence gives them back what they do by default. */
enum sl_err sl_loop_on_signals(struct sl_loop *loop, void (*fn)(void *arg, int signum), void *arg,
			       struct sl_fail *fail) SL_MUST_CHECK;
void sl_loop_unsilence(void);

/* SIGHUP, as something else than an end. */
enum sl_err sl_loop_on_hangup(struct sl_loop *loop, void (*fn)(void *arg), void *arg,
			      struct sl_fail *fail) SL_MUST_CHECK;

#endif
