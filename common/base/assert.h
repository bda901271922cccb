/* Assertions on this program's own state, in every build. One that fails logs the condition with its values, then
 * aborts (SIGABRT): what is on disk was right before, and a wrong state must not get there. Never for what a peer, a
 * file or a user says: that is a typed error. Threads: any. */
#ifndef SL_BASE_ASSERT_H
#define SL_BASE_ASSERT_H

#include <stdint.h>

__attribute__((noreturn, cold)) void sl_assert_failed(const char *file, int line, const char *condition);
/* With the values of both sides. */
__attribute__((noreturn, cold)) void sl_assert_differs(const char *file, int line, const char *condition, int64_t a,
						       int64_t b);

#define sl_assert(condition) ((condition) ? (void)0 : sl_assert_failed(__FILE__, __LINE__, #condition))
/* Whole numbers: sl_assert_int(done, <=, chunks). Each is computed once. */
#define sl_assert_int(a, op, b)                                                                             \
	do {                                                                                                \
		const __auto_type a_ = (a);                                                                 \
		const __auto_type b_ = (b);                                                                 \
		if (!(a_ op b_))                                                                            \
			sl_assert_differs(__FILE__, __LINE__, #a " " #op " " #b, (int64_t)a_, (int64_t)b_); \
	} while (0)
/* Where `given` is true, `then` has to be. */
#define sl_assert_if(given, then) sl_assert(!(given) || (then))

#endif
