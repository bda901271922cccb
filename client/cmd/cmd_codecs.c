#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cmd/command.h"
#include "common/base/clock.h"
#include "common/base/pool.h"
#include "common/base/text.h"
#include "common/base/wrap.h"
#include "common/codec/codec.h"
#include "common/codec/stage.h"
#include "common/conf/named_codecs.h"
#include "common/telemetry/json.h"
#include "common/weights/safetensors.h"
#include "kernels/cpu/cpu.h"

static const char *const usage[] = {
	"splitc codecs [--measure (FILE.safetensors | --shape N,H,W,C) [CODEC]… [--threads N]] [--json]",
	"Lists the codecs that `codec:` takes. A chain joins codecs with '|', for example topk:0.2|quant:8.",
	"With --measure it prints for each CODEC: bytes, real and nominal ratio, relative error and GB/s. Without "
	"CODEC it measures some usual ones. It measures every tensor of floats in FILE.safetensors (NHWC, as "
	"activations lie in memory), or normally distributed values of the given shape.",
	NULL,
};

enum { MAX_SPECS = 64, REPEATS = 5, MAX_TENSOR = 1 << 29, CODEC_WIDTH = 24 };

static const char *const usual[] = {"none",         "f16",
				    "bf16",         "quant:8",
				    "quant:4",      "sortquant:6+2",
				    "topk:0.1",     "topk:0.2|quant:8",
				    "randomk:0.1",  "threshold:0.001",
				    "terngrad",     "qsgd:255",
				    "lowrank:3",    "lowrank:3|quant:8",
				    "downsample:2", "quant:8|zstd:3"};

struct measure {
	const char *file;
	struct sl_shape shape; /* of --shape; ndim 0: none */
	struct sl_codec_spec spec[MAX_SPECS];
	int n_spec, threads;
	bool json;
	struct sl_backend be;
	struct sl_pool *pool;
	json_t *rows;
};

struct row {
	size_t bytes;
	double nominal, error, encode_s, decode_s; /* error: NAN where the tensor holds NaN or Inf */
};

static double relative_error(const float *x, const float *y, int64_t n)
{
	double error = 0, norm = 0;

	for (int64_t i = 0; i < n; i++) {
		double d = (double)x[i] - (double)y[i];

		error += d * d;
		norm += (double)x[i] * (double)x[i];
	}
	if (!isfinite(norm))
		return NAN; /* the tensor has NaN or Inf, so the error says nothing */
	return norm > 0 ? sqrt(error / norm) : error > 0 ? INFINITY : 0;
}

/* Takes the best of several runs, on which other load of the machine shows least. */
static enum sl_err time_codec(struct sl_codec *codec, struct sl_tensor *x, struct sl_tensor *y, struct row *row,
			      struct sl_fail *fail)
{
	const struct sl_codec_call call = {.training = true};
	size_t cap = sl_codec_bound(codec, x->shape.dim[0]);
	struct sl_buf out = {malloc(cap), 0, cap};
	enum sl_err err = out.data ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a payload");

	row->encode_s = row->decode_s = INFINITY;
	for (int i = 0; i < REPEATS && !err; i++) {
		uint64_t start = sl_now_ns();

		out.len = 0;
		err = sl_codec_encode(codec, &call, x, &out);
		row->encode_s = fmin(row->encode_s, sl_seconds_since(start));
		if (err) {
			sl_fail_set(fail, err, "%s", sl_err_text(err));
			break;
		}
		start = sl_now_ns();
		err = sl_codec_decode(codec, &call, (struct sl_bytes){out.data, out.len}, y, fail);
		row->decode_s = fmin(row->decode_s, sl_seconds_since(start));
	}
	row->bytes = out.len;
	row->nominal = sl_codec_nominal_bytes(codec, x->shape.dim[0]);
	free(out.data);
	return err;
}

static void show(struct measure *m, const char *spec, const struct sl_shape *shape, const struct row *r)
{
	double whole = (double)sl_shape_count(shape) * sizeof(float);
	char error[16] = "-";

	if (!m->json) {
		if (!isnan(r->error))
			snprintf(error, sizeof error, "%.3g", r->error);
		sl_print_cell(stdout, spec, 0, CODEC_WIDTH);
		printf("%11zu %7.4f %7.4f %9s %8.2f %8.2f\n", r->bytes, (double)r->bytes / whole, r->nominal / whole,
		       error, whole / r->encode_s / 1e9, whole / r->decode_s / 1e9);
		fflush(stdout);
		return;
	}
	json_array_append_new(m->rows,
			      json_pack("{s:s, s:I, s:f, s:f, s:o, s:o, s:o}", "codec", spec, "bytes",
					(json_int_t)r->bytes, "ratio", (double)r->bytes / whole, "nominal_ratio",
					r->nominal / whole, "relative_error", sl_json_real(r->error), "encode_gb_s",
					sl_json_real(whole / r->encode_s / 1e9), "decode_gb_s",
					sl_json_real(whole / r->decode_s / 1e9)));
}

static void measure_codec(struct measure *m, const struct sl_codec_spec *spec, struct sl_tensor *x, struct sl_tensor *y)
{
	const struct sl_codec_env env = {.be = &m->be, .shape = x->shape, .slots = 1, .dir = SL_DIR_HEAD_ACT};
	struct sl_codec *codec = NULL;
	struct sl_fail fail = {0};
	struct row row = {0};
	enum sl_err err = sl_codec_open(&codec, spec, &env, &fail);

	if (!err)
		err = time_codec(codec, x, y, &row, &fail);
	row.error = err ? NAN : relative_error(x->data, y->data, sl_shape_count(&x->shape));
	if (err)
		fprintf(stderr, "splitc: %s: %s\n", spec->text, fail.text);
	else
		show(m, spec->text, &x->shape, &row);
	sl_codec_close(codec);
}

static void measure_tensor(struct measure *m, const char *name, struct sl_tensor *x, struct sl_tensor *y)
{
	char shape[SL_SHAPE_TEXT];

	if (!m->json)
		printf("%s %s\nfp32 %.2f MB; %d thread%s; GB = 10^9 bytes of the tensor\n"
		       "%-*s%11s %7s %7s %9s %8s %8s\n",
		       name, sl_shape_text(&x->shape, shape), (double)sl_shape_count(&x->shape) * sizeof(float) / 1e6,
		       sl_pool_threads(m->pool), sl_plural(sl_pool_threads(m->pool)), CODEC_WIDTH, "codec", "bytes",
		       "ratio", "nominal", "rel. err.", "enc GB/s", "dec GB/s");
	m->rows = json_array();
	for (int i = 0; i < m->n_spec; i++)
		measure_codec(m, &m->spec[i], x, y);
	if (m->json) {
		json_t *line = json_pack("{s:i, s:s, s:s}", "schema", 1, "tensor", name, "shape",
					 sl_shape_text(&x->shape, shape));

		json_object_set(line, "codecs", m->rows);
		sl_command_print_json(line, JSON_COMPACT);
	} else {
		putchar('\n');
	}
	json_decref(m->rows);
}

static enum sl_err take(struct measure *m, const struct sl_shape *shape, struct sl_tensor *x, struct sl_tensor *y,
			struct sl_fail *fail)
{
	size_t bytes = (size_t)sl_shape_count(shape) * sizeof(float);

	*x = (struct sl_tensor){SL_F32, *shape, NULL, &m->be};
	*y = *x;
	x->data = calloc(1, bytes);
	y->data = calloc(1, bytes);
	if (x->data && y->data)
		return SL_OK;
	free(x->data);
	free(y->data);
	return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for %zu bytes", bytes);
}

static enum sl_err measure_normal(struct measure *m, struct sl_fail *fail)
{
	const struct sl_rng_key key = {.seed = 1, .tensor = SL_RNG_TEST};
	struct sl_tensor x, y;
	enum sl_err err = take(m, &m->shape, &x, &y, fail);
	float *to = x.data;

	if (err)
		return err;
	for (int64_t i = 0; i < sl_shape_count(&m->shape); i += 2) {
		float two[2];

		sl_rng_normal2(sl_rng_u32(&key, (uint64_t)i), sl_rng_u32(&key, (uint64_t)i + 1), two);
		for (int k = 0; k < 2 && i + k < sl_shape_count(&m->shape); k++)
			to[i + k] = two[k];
	}
	measure_tensor(m, "standard normal values", &x, &y);
	free(x.data);
	free(y.data);
	return SL_OK;
}

/* The tensor's shape; false: it is passed over. A codec takes floats of two to four dimensions, the first being
 * rows. */
static bool shape_of(const struct sl_st_tensor *t, struct sl_shape *out)
{
	*out = (struct sl_shape){.ndim = t->ndim};
	for (int i = 0; i < t->ndim && i < SL_MAX_DIMS; i++)
		out->dim[i] = t->dim[i];
	return t->ndim >= 2 && t->ndim <= SL_MAX_DIMS && sl_st_is_float(t) && t->count >= 1 && t->count <= MAX_TENSOR;
}

static enum sl_err measure_file(struct measure *m, struct sl_fail *fail)
{
	struct sl_st_file *file;
	enum sl_err err = sl_st_open(&file, m->file, fail);
	int measured = 0;

	if (err)
		return err;
	for (int i = 0; i < sl_st_count(file) && !err; i++) {
		const struct sl_st_tensor *t = sl_st_at(file, i);
		struct sl_tensor x, y;
		struct sl_shape shape;

		if (!shape_of(t, &shape))
			continue;
		err = take(m, &shape, &x, &y, fail);
		if (err)
			break;
		err = sl_st_read_f32(file, t, x.data, fail);
		if (!err)
			measure_tensor(m, t->name, &x, &y);
		free(x.data);
		free(y.data);
		measured++;
	}
	sl_st_close(file);
	if (!err && !measured)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: no tensor of floats with two to four dimensions", m->file);
	return err;
}

static bool parse_shape(const char *text, struct sl_shape *out)
{
	struct sl_shape s = {0};
	char *end = (char *)text;
	int64_t count;

	do {
		if (s.ndim == SL_MAX_DIMS)
			return false;
		s.dim[s.ndim++] = strtoll(end, &end, 10);
	} while (*end++ == ',');
	*out = s;
	return end[-1] == '\0' && s.ndim >= 2 && sl_shape_count_checked(&s, MAX_TENSOR, &count);
}

static enum sl_err parse_threads(const char *text, int *out, struct sl_fail *fail)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (end == text || *end || n < 1 || n > SL_POOL_MAX_THREADS)
		return sl_fail_set(fail, SL_ERR_USAGE, "--threads takes 1 to %d, not '%s'", SL_POOL_MAX_THREADS, text);
	*out = (int)n;
	return SL_OK;
}

/* Reads what to measure: FILE.safetensors or --shape, and the codecs. */
static enum sl_err choose(struct measure *m, const struct sl_options *o, struct sl_fail *fail)
{
	enum sl_err err = o->threads ? parse_threads(o->threads, &m->threads, fail) : SL_OK;

	if (!err && o->shape && !parse_shape(o->shape, &m->shape))
		err = sl_fail_set(fail, SL_ERR_USAGE, "--shape takes 2 to 4 numbers such as 64,112,112,32, not '%s'",
				  o->shape);
	for (int i = 0; i < o->n_positional && !err; i++)
		if (sl_ends_with(o->positional[i], ".safetensors") && !m->file)
			m->file = o->positional[i];
		else
			err = sl_codec_parse(o->positional[i], &m->spec[m->n_spec++], fail);
	if (!err && !m->file == !m->shape.ndim)
		return sl_fail_set(fail, SL_ERR_USAGE, "--measure what? FILE.safetensors or --shape N,H,W,C; usage: %s",
				   usage[0]);
	if (m->n_spec)
		return err;
	for (size_t i = 0; i < sizeof usual / sizeof usual[0] && !err; i++)
		err = sl_codec_parse(usual[i], &m->spec[m->n_spec++], fail);
	return err;
}

static int measure(const struct sl_options *o)
{
	struct measure m = {.threads = 1, .json = o->json};
	struct sl_fail fail;
	enum sl_err err = choose(&m, o, &fail);
	bool open = false;

	if (!err)
		err = sl_pool_open(&m.pool, m.threads, &fail);
	if (!err) {
		err = sl_cpu_backend_open(&m.be, m.pool, &fail);
		open = !err;
	}
	if (!err)
		err = m.file ? measure_file(&m, &fail) : measure_normal(&m, &fail);
	if (open)
		m.be.ops->close(&m.be);
	sl_pool_close(m.pool);
	return err ? sl_command_failed(&fail) : 0;
}

static const char *kind_name(enum sl_stage_kind kind)
{
	static const char *const name[] = {"transform", "quantizer", "bytes"};

	return name[kind];
}

static void list_codecs(void)
{
	printf("%3s  %-12s %-10s %s\n", "id", "name", "kind", "written as");
	for (const struct sl_codec_stage *const *s = sl_codec_stages(); *s; s++)
		sl_print_wrapped(stdout, (*s)->usage,
				 printf("%3u  %-12s %-10s ", (*s)->id, (*s)->name, kind_name((*s)->kind)),
				 SL_WRAP_WIDTH);
}

static const char *const dirs[] = {"head_act", "mid_act", "mid_grad", "head_grad"};

static void list_named(void)
{
	printf("\nBy name, as in `codec: small`:\n%-9s %-9s %-10s %s\n", "name", "data", "tensor", "codec");
	for (const struct sl_named_codecs *n = sl_named_codecs; n->name; n++)
		for (int of = 0; of < SL_CODECS_OF_COUNT; of++)
			for (int dir = 0; dir < 4 && (dir == 0 || n->codec[of][0]); dir++)
				printf("%-9s %-9s %-10s %s\n", dir || of ? "" : n->name,
				       dir ? "" : sl_codecs_of_names[of], n->codec[of][0] ? dirs[dir] : "all",
				       n->codec[of][0] ? n->codec[of][dir] : "none");
}

static void list_json(void)
{
	json_t *list = json_array();

	for (const struct sl_codec_stage *const *s = sl_codec_stages(); *s; s++)
		json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:s}", "id", (*s)->id, "name", (*s)->name,
						      "kind", kind_name((*s)->kind), "usage", (*s)->usage));
	sl_command_print_json(list, JSON_INDENT(2));
}

int splitc_codecs(int argc, char **argv)
{
	struct sl_options o = {.command = "codecs", .usage = usage};
	int status = sl_options_parse(&o, argc, argv, SL_OPT_JSON | SL_OPT_MEASURE, MAX_SPECS);

	if (status >= 0)
		return status;
	if (o.measure)
		return measure(&o);
	if (o.shape || o.threads || o.n_positional)
		return sl_options_missing(&o, "--measure");
	(o.json ? list_json : list_codecs)();
	if (!o.json)
		list_named();
	return 0;
}
