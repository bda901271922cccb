/* Runs a case on a backend in one of several ways, keeps everything that came out, and compares two such results. */
#ifndef SL_TESTS_OP_RUN_H
#define SL_TESTS_OP_RUN_H

#include "tests/support/op_rig.h"

/* Tolerances of float against the reference's doubles, for every op and backend. With e = got − want, over a tensor:
 *   ‖e‖ ≤ OP_TOL_NORM · ‖scale‖          |e[i]| ≤ OP_TOL_ELEMENT · (|want[i]| + scale)
 * where scale is the root mean square of `want`, or of the terms that it is summed from where those cancel
 * (struct op_part). */
#define OP_TOL_NORM    1e-5
#define OP_TOL_ELEMENT 2e-5
/* What is stored in 16 bits: of a unit in the last place, 2^-8 and 2^-11 of a value, half is lost where it is stored;
 * twice where it is added to what was, or to a bias. */
#define OP_TOL_BF16 0x1p-7
#define OP_TOL_FP16 0x1p-10

struct op_run_how {
	int chunks;     /* all forward, then all backward, then all committed, in order; chunk 1 has a row less */
	int extra_rows; /* prepared beyond the rows that are used */
	bool backward;
	bool commit; /* of cases that train */
	enum op_din din;
	unsigned frozen; /* parameters 1 << i have no gradient, and no such part in the result has a count */
	/* What goes in is what this precision can hold, and it is computed in it on a backend that has it. */
	enum sl_precision precision;
};

struct op_part {
	char name[24]; /* "out[0]" of chunk 0, "grad[1]" of parameter 1 */
	float *v;      /* owned */
	int64_t count;
	enum sl_dtype stored; /* as it was in the backend's memory */
	double scale;         /* of terms that cancel in it; 0: its own values say how large it is */
};

enum { OP_MAX_PART = 24, OP_MAX_CHUNKS = 2 };

struct op_result {
	struct op_part part[OP_MAX_PART];
	int n_part;
	bool has_loss;
	int64_t rows;
	double loss[OP_MAX_CHUNKS];
	int64_t correct[OP_MAX_CHUNKS];
};

/* False where a call failed or a guard was hit (logged). Free with op_result_free in any case. */
bool op_run(struct op_result *r, struct sl_backend *be, const struct op_case *c, uint64_t seed,
	    const struct op_run_how *how, struct op_log *log);
void op_result_free(struct op_result *r);

/* Logs the first element of every part that is out of tolerance. */
void op_result_compare(const struct op_result *got, const struct op_result *want, struct op_log *log);
/* Logs every part that differs in a single bit. */
void op_result_compare_bits(const struct op_result *got, const struct op_result *want, const char *whose,
			    struct op_log *log);
void op_compare(const char *name, const float *got, const float *want, int64_t count, double scale, struct op_log *log);

/* Sets dout to 0 where an output lies within `margin` of a kink (relu, relu6; with_input: also of ACT and of a maxpool
 * window whose two largest are as close): there, rounding or a finite step would decide on the gradient. */
void op_avoid_kinks(struct op_host *host, const struct op_case *c, const struct sl_op *op,
		    const struct op_host_params *params, double margin, bool with_input);

#endif
