/* The figures here and in stages.def were measured by bench_pieces on a Xeon with AVX-512 and two busy cores, and
 * rounded up. With portable loops, codecs of a few ns take three times as long. */
#include "common/codec/cost.h"

#include "common/codec/stage.h"

enum piece { BLOCK, SAMPLE };

struct price {
	double encode_ns, decode_ns; /* per element of the stage's input */
	enum piece piece;
};

static const struct price price_of[] = {
#define SL_STAGE_ROW(KIND, id, stage, device, encode_ns, decode_ns, piece) [id] = {encode_ns, decode_ns, piece},
#include "common/codec/stages.def"
};

/* Per byte, by level. zstd_ns, for the time of a task: random data. zstd_worst_ns, for the longest piece: data that
 * take zstd longest, random elements of two values. */
static const double zstd_ns[] = {4, 4, 5, 6, 6, 10, 12, 15, 18, 25, 35, 60, 80, 80, 90, 130, 200, 300, 400, 500};
static const double zstd_worst_ns[] = {20,  20,  20,  20,  30,  30,  40,  60,  80,   120,
				       150, 600, 600, 600, 600, 700, 900, 900, 1200, 1300};
enum { ZSTD_LEVELS = sizeof zstd_ns / sizeof zstd_ns[0], ZSTD_BLOCK = 1 << 17 };
static const double unzstd_ns = 8;

/* lowrank, per element, rank and product. An iteration makes both factors by a product each, and makes one of r rows
 * of `small` elements orthonormal. */
static const double product_ns = 0.5;
enum { RANK, ITERS };

/* Elements of the largest sample. */
static double sample_of(const struct sl_extent *in)
{
	return (double)sl_shape_row(&in->shape) * (double)(sl_extent_ragged(in) ? in->longest : 1);
}

static double lowrank_ns(const double *arg, const struct sl_extent *in, bool encodes)
{
	double sample = sample_of(in), c = (double)in->shape.dim[in->shape.ndim - 1], m = sample / c;
	double small = c < m ? c : m, r = arg[RANK] < small ? arg[RANK] : small;

	if (!encodes)
		return sample * r * product_ns;
	return arg[ITERS] * (2 * sample * r * product_ns + 2 * r * r * small * product_ns);
}

static struct sl_cost stage_cost(const struct sl_codec_stage *stage, const double *arg, const struct sl_extent *in,
				 bool encodes)
{
	const struct price *p = &price_of[stage->id];
	double ns = encodes ? p->encode_ns : p->decode_ns, n = (double)sl_shape_count(&in->shape);
	double sample = sample_of(in), piece = p->piece == SAMPLE ? sample : SL_CODEC_BLOCK;
	double more = stage->id == SL_STAGE_ID_LOWRANK ? lowrank_ns(arg, in, encodes) : 0; /* per sample */

	piece = piece < n ? piece : n;
	return (struct sl_cost){(n * ns + (double)in->rows * more) * 1e-9, (piece * ns + more) * 1e-9};
}

static struct sl_cost zstd_cost(double level, size_t bytes, bool encodes)
{
	int at = (int)level < ZSTD_LEVELS ? (int)level : ZSTD_LEVELS - 1;
	double piece = bytes < ZSTD_BLOCK ? (double)bytes : ZSTD_BLOCK;

	return (struct sl_cost){(double)bytes * (encodes ? zstd_ns[at] : unzstd_ns) * 1e-9,
				piece * (encodes ? zstd_worst_ns[at] : unzstd_ns) * 1e-9};
}

void sl_cost_add(struct sl_cost *sum, struct sl_cost cost)
{
	sum->task_s += cost.task_s;
	sum->piece_s = cost.piece_s > sum->piece_s ? cost.piece_s : sum->piece_s;
}

struct sl_cost sl_codec_cost(const struct sl_codec_spec *spec, const struct sl_extent *most, bool encodes)
{
	const struct sl_codec_stage *none = sl_codec_stage_find("none", 4);
	static const double no_arg[SL_CODEC_MAX_ARGS];
	struct sl_codec_spec change;
	struct sl_cost sum = {0};
	struct sl_extent s = *most;
	size_t bytes = none->bound(no_arg, false, &s);

	for (int i = 0; i < spec->n_stage; i++) {
		const struct sl_codec_stage *stage = spec->stage[i].stage;
		const double *arg = spec->stage[i].arg;
		struct sl_extent in = s;

		if (stage->kind == SL_STAGE_BYTES) {
			sl_cost_add(&sum, zstd_cost(arg[0], bytes, encodes));
			continue;
		}
		sl_cost_add(&sum, stage_cost(stage, arg, &in, encodes));
		/* error feedback and changes decode what was encoded, to see what was lost */
		if (encodes && (spec->error_feedback || sl_codec_spec_variant(spec, SL_CODEC_CHANGE, &change)))
			sl_cost_add(&sum, stage_cost(stage, arg, &in, false));
		if (stage->kind == SL_STAGE_TRANSFORM)
			stage->shape(arg, &in, &s, NULL);
		bytes = stage->kind == SL_STAGE_TRANSFORM ? none->bound(no_arg, false, &s)
							  : stage->bound(arg, false, &in);
	}
	sl_cost_add(&sum, stage_cost(none, no_arg, &s, encodes));
	return sum;
}
