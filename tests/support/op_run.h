/* Runs a case on a backend in one of several ways, keeps all results, and compares two sets of results. */
#ifndef SL_TESTS_OP_RUN_H
#define SL_TESTS_OP_RUN_H

#include "tests/support/op_rig.h"

/* Tolerances of float against the reference's doubles, for every op and backend. With e = got − want, over a tensor:
 *   ‖e‖ ≤ OP_TOL_NORM · ‖scale‖          |e[i]| ≤ OP_TOL_ELEMENT · (|want[i]| + scale)
 * where scale is the root mean square of `want`, or of the terms that it is summed from where those cancel
 * (struct op_part). */
#define OP_TOL_NORM    1e-5
#define OP_TOL_ELEMENT 2e-5
/* Tolerances for values stored in 16 bits, whose units in the last place are 2^-8 and 2^-11 of the
 * value. A store loses half a unit; a sum with a former value or a bias loses twice as much. */
#define OP_TOL_BF16 0x1p-7
#define OP_TOL_FP16 0x1p-10
/* Of attention whose own steps round: turned queries and keys, probabilities, and the gradients of scores. With a cap
 * and positions the largest error is 0.019. */
#define OP_TOL_ROUNDED 0x1p-5

struct op_run_how {
	int chunks;     /* all forward, then all backward, then all committed, in order; chunk 1 has one row less */
	int extra_rows; /* rows prepared beyond those used */
	bool backward;
	bool commit; /* for cases that train */
	enum op_din din;
	unsigned frozen; /* bit i: parameter i has no gradient, and its part in the result has count 0 */
	/* Inputs are rounded to this precision; a backend that supports it also computes in it. */
	enum sl_precision precision;
};

struct op_part {
	char name[24]; /* "out[0]" of chunk 0, "grad[1]" of parameter 1 */
	float *v;      /* owned */
	int64_t count;
	enum sl_dtype stored; /* the type that it had in the backend's memory */
	bool rounded;         /* from values that the op itself rounded to bfloat16 */
	double scale;         /* magnitude of terms that cancel in it; 0: use its own values */
};

enum { OP_MAX_PART = 24, OP_MAX_CHUNKS = 2 };

struct op_result {
	struct op_part part[OP_MAX_PART];
	int n_part;
	bool has_loss;
	int64_t rows;
	double loss[OP_MAX_CHUNKS], dice[OP_MAX_CHUNKS];
	int64_t correct[OP_MAX_CHUNKS];
};

/* Returns false if a call failed or a guard was overwritten (logged). Call op_result_free in any case. */
bool op_run(struct op_result *r, struct sl_backend *be, const struct op_case *c, uint64_t seed,
	    const struct op_run_how *how, struct op_log *log);
void op_result_free(struct op_result *r);

/* Logs, for every part out of tolerance, its first such element. */
void op_result_compare(const struct op_result *got, const struct op_result *want, struct op_log *log);
/* Logs every part that is not bit-identical. */
void op_result_compare_bits(const struct op_result *got, const struct op_result *want, const char *whose,
			    struct op_log *log);
void op_compare(const char *name, const float *got, const float *want, int64_t count, double scale, struct op_log *log);

/* Sets dout to 0 where an output lies within `margin` of a kink of relu or relu6, because rounding
 * or a finite step would decide the gradient there. with_input: also for ACT, and for a maxpool
 * window whose two largest values are that close. */
void op_avoid_kinks(struct op_host *host, const struct op_case *c, const struct sl_op *op,
		    const struct op_host_params *params, double margin, bool with_input);

#endif
