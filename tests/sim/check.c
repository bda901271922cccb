/* What a run must come to: the weights and losses of `splitc train --local`, by the real program. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <xxhash.h>

#include "common/weights/safetensors.h"
#include "tests/sim/sim.h"

enum { ROWS_MOST = 128, SETS_MOST = 32 };

struct outcome {
	uint64_t weights; /* a hash; 0: there are none */
	char *tensors;    /* of a vertical row: all of the reference, [len] */
	size_t len;
	char *losses; /* a line for each step */
};

static struct outcome reference[ROWS_MOST][SIM_MEMBERS];
static const char *program; /* splitc */

#define EACH_CLIENT                                                                                                    \
	"server: tcp://127.0.0.1:5570\n"                                                                               \
	"data: {kind: csv, dir: ../data}\n"                                                                            \
	"train: {batch: 12, chunks: 3, epochs: 3, seed: 3, checkpoint_every: 4, optimizer: {kind: adamw, lr: 0.01}}\n" \
	"codec: {head_act: \"topk:0.3,ef=true\", mid_act: \"quant:8\", mid_grad: \"quant:6\", head_grad: "             \
	"\"topk:0.5,ef=true\"}\n"                                                                                      \
	"link: {on_server_lost: wait, retry_ms: 20, stall_s: 30, heartbeat_ms: 100, timeout_ms: 2000, "                \
	"connect_timeout_ms: 2000}\n"                                                                                  \
	"threads: 1\n"
/* How members with one head and data of their own scale these. */
static const char like_json[] =
	"{\"schema\":1,\"kind\":\"csv\",\"task\":\"classes\",\"classes\":[\"x\",\"y\",\"z\"],\"columns\":["
	"{\"name\":\"a\",\"mean\":0,\"deviation\":1.2},{\"name\":\"b\",\"mean\":1,\"deviation\":1.4},"
	"{\"name\":\"c\",\"mean\":-1,\"deviation\":1.2},{\"name\":\"d\",\"mean\":1,\"deviation\":1.4}]}";
/* share.secret: the keys of libzmq's manual. */
static const char pair_key[] = "public Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID\n"
			       "secret D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs\n";
static const char client_yaml[] = EACH_CLIENT "model: {name: mlp, classes: 3, features: 4, dropout: 0.2}\n"
					      "partition: \"1:-1\"\n";
/* Rows with cuts have a network with skips, whose weights go up to the server's store. */
static const char net_yaml[] = EACH_CLIENT "model: {network: ../net.safetensors}\n";
static const char net_graph[] = "graph 1\n"
				"in row f32 R[4]\n"
				"in label i32 R[]\n"
				"param a.weight [8,4] zero\n"
				"param b.weight [8,8] zero\n"
				"param c.weight [8,8] zero\n"
				"param d.weight [3,8] zero\n"
				"node a linear %0 &0\n"
				"node a1 act %2\n"
				"node b linear %3 &1\n"
				"node b1 act %4\n"
				"node b2 add %5 %3\n"
				"node c linear %6 &2\n"
				"node c1 act %7\n"
				"node c2 add %8 %3\n"
				"node d linear %9 &3\n"
				"node loss xent %10 %1\n"
				"out loss %11\n";
static const char three_graph[] = "graph 1\n"
				  "in left f32 R[4]\n"
				  "in label i32 R[]\n"
				  "in right f32 R[4]\n"
				  "in more f32 R[4]\n"
				  "param p.weight [4,4] zero\n"
				  "param q.weight [4,4] zero\n"
				  "param r.weight [4,4] zero\n"
				  "param c.weight [8,12] zero\n"
				  "param d.weight [3,8] zero\n"
				  "node p linear %0 &0\n"
				  "node p1 act %4\n"
				  "node q linear %2 &1\n"
				  "node q1 act %6\n"
				  "node r linear %3 &2\n"
				  "node r1 dropout %8\n"
				  "node j concat %5 %7\n"
				  "node k concat %10 %9\n"
				  "node c linear %11 &3\n"
				  "node c1 act %12\n"
				  "node d linear %13 &4\n"
				  "node loss xent %14 %1\n"
				  "out loss %15\n";
/* Where the fifth activation of a row is large, Inf times 0 is NaN. Else the branch adds zeros. */
static const char nan_graph[] = "graph 1\n"
				"in row f32 R[4]\n"
				"in label i32 R[]\n"
				"param a.weight [8,4] zero\n"
				"param huge.weight [8,8] zero\n"
				"param none.weight [8,8] zero\n"
				"param b.weight [8,8] zero\n"
				"param d.weight [3,8] zero\n"
				"node a linear %0 &0\n"
				"node a1 act %2\n"
				"node huge linear %3 &1\n"
				"node none linear %4 &2\n"
				"node sum add %5 %3\n"
				"node b linear %6 &3\n"
				"node b1 act %7\n"
				"node d linear %8 &4\n"
				"node loss xent %9 %1\n"
				"out loss %10\n";
static const char server_yaml[] = "listen: tcp://127.0.0.1:5570\n"
				  "store: server/store\n"
				  "store_ttl_s: 0\n"
				  "threads: 1\n";

static FILE *created(const char *path)
{
	FILE *f = fopen(path, "w");

	if (!f)
		perror(path);
	return f ? f : (exit(2), NULL);
}

static void write_text(const char *path, const char *text)
{
	FILE *f = created(path);

	fputs(text, f);
	fclose(f);
}

/* The other parties of a vertical row's reference. */
static const char labels_yaml[] = "share: {mode: vertical, group: g, clients: 2, member: 1, role: labels}\n";
#define THREE EACH_CLIENT "model: {network: ../three.safetensors}\nhead_end: r1\ntail_begin: d\ncut_values: 3\n"
static const char three_yaml[2][sizeof THREE + 128] = {
	THREE "share: {mode: vertical, group: g, clients: 3, member: 1, role: features, inputs: [right]}\n",
	THREE "share: {mode: vertical, group: g, clients: 3, member: 2, role: labels, inputs: [more]}\n"};

/* Writes a party's config, and one that clips: --party takes no --set. */
static void write_party(const char *name, const char *text)
{
	const char *rest = strstr(text, "train: {") + strlen("train: {");
	char path[64], clips[sizeof three_yaml[0] + 64];

	snprintf(path, sizeof path, "%s.yaml", name);
	write_text(path, text);
	snprintf(path, sizeof path, "%s-clip.yaml", name);
	snprintf(clips, sizeof clips, "%.*sclip_norm: 0.5, %s", (int)(rest - text), text, rest);
	write_text(path, clips);
}

/* Three classes that overlap, in four columns; with `named` each row has an id, too. */
static void write_table(const char *path, int rows, uint32_t seed, bool named)
{
	FILE *f = created(path);

	fprintf(f, "%sa,b,c,d,label\n", named ? "id," : "");
	for (int i = 0; i < rows; i++) {
		const int label = (int)((seed = seed * 1664525u + 1013904223u) >> 16) % 3;

		if (named)
			fprintf(f, "row-%d,", i);
		for (int k = 0; k < 4; k++) {
			seed = seed * 1664525u + 1013904223u;
			fprintf(f, "%.4f,", label * (k % 2) - (k == 2) + (double)(seed >> 8) / (1 << 22) - 2);
		}
		fprintf(f, "%c\n", "xyz"[label]);
	}
	fclose(f);
}

static void write_tables(const char *dir, int rows)
{
	char path[32];

	const bool named = strcmp(dir, "named") == 0;

	mkdir(dir, 0777);
	snprintf(path, sizeof path, "%s/train.csv", dir);
	write_table(path, rows, 5, named);
	snprintf(path, sizeof path, "%s/test.csv", dir);
	write_table(path, 24, 6, named);
}

static void write_networks(void)
{
	static float value[96], huge[64] = {[4] = 3.4e38f}, none[64];
	const struct sl_st_note note[] = {
		{"split.graph", net_graph}, {"split.graph", three_graph}, {"split.graph", nan_graph}};
	const struct sl_st_item item[][5] = {
		{{"a.weight", "F32", 2, {8, 4}, value},
		 {"b.weight", "F32", 2, {8, 8}, value},
		 {"c.weight", "F32", 2, {8, 8}, value},
		 {"d.weight", "F32", 2, {3, 8}, value}},
		{{"p.weight", "F32", 2, {4, 4}, value},
		 {"q.weight", "F32", 2, {4, 4}, value + 16},
		 {"r.weight", "F32", 2, {4, 4}, value + 32},
		 {"c.weight", "F32", 2, {8, 12}, value},
		 {"d.weight", "F32", 2, {3, 8}, value}},
		{{"a.weight", "F32", 2, {8, 4}, value},
		 {"b.weight", "F32", 2, {8, 8}, value},
		 {"d.weight", "F32", 2, {3, 8}, value + 60},
		 {"huge.weight", "F32", 2, {8, 8}, huge},
		 {"none.weight", "F32", 2, {8, 8}, none}},
	};
	struct sl_fail fail;
	uint32_t seed = 1;

	for (int i = 0; i < 96; i++)
		value[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) / (1 << 24) - 0.5f;
	if (sl_st_write("net.safetensors", item[0], 4, &note[0], 1, SL_FP_NONE, &fail) ||
	    sl_st_write("three.safetensors", item[1], 5, &note[1], 1, SL_FP_NONE, &fail) ||
	    sl_st_write("nan.safetensors", item[2], 5, &note[2], 1, SL_FP_NONE, &fail)) {
		fprintf(stderr, "sim: %s\n", fail.text);
		exit(2);
	}
}

const char *sim_config(const struct sim_row *row)
{
	return strstr(row->sets, "head_end=") ? "../net.yaml" : "../client.yaml";
}

void sim_work_make(void)
{
	char labels[sizeof client_yaml + sizeof labels_yaml];

	write_text("client.yaml", client_yaml);
	write_text("net.yaml", net_yaml);
	write_networks();
	sim_volumes_make();
	write_text("server.yaml", server_yaml);
	snprintf(labels, sizeof labels, "%s%s", client_yaml, labels_yaml);
	write_party("labels", labels);
	write_party("three-1", three_yaml[0]);
	write_party("three-2", three_yaml[1]);
	write_text("like.json", like_json);
	write_text("pair.key", pair_key);
	chmod("pair.key", 0600);
	write_tables("data", 120);
	write_tables("named", 120);
	for (int k = 0; k < 3; k++) { /* members with files of their own: 10, 7 and 4 batches */
		char dir[] = "data-0";

		dir[5] = (char)('0' + k);
		write_tables(dir, 120 - 36 * k);
	}
}

/* ---- an outcome ---- */

/* The tensors alone, which the caller frees: the file's header has the run's own figures. NULL: there are none. */
static char *tensors_of(const char *dir, size_t *len)
{
	char path[256], *bytes;
	uint64_t head = 0;
	struct stat st;
	int fd;

	*len = 0;
	snprintf(path, sizeof path, "%s/model.safetensors", dir);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return NULL;
	bytes = fstat(fd, &st) ? NULL : malloc((size_t)st.st_size + 1);
	if (bytes && read(fd, bytes, (size_t)st.st_size) == st.st_size && (size_t)st.st_size > sizeof head) {
		memcpy(&head, bytes, sizeof head);
		if (head < (uint64_t)st.st_size - sizeof head) {
			*len = (size_t)st.st_size - sizeof head - head;
			memmove(bytes, bytes + sizeof head + head, *len);
		}
	}
	close(fd);
	return bytes;
}

static uint64_t weights_of(const char *dir)
{
	size_t len;
	char *bytes = tensors_of(dir, &len);
	const uint64_t hash = len ? XXH3_64bits(bytes, len) : 0;

	free(bytes);
	return hash;
}

/* Tensors are sorted by name, and those of head and middle are neighbours: a party's are some of the reference's first,
 * and then its last. */
static bool is_part_of(const struct outcome *all, const char *dir)
{
	const char *const end = all->tensors + all->len, *at = all->tensors, *p;
	size_t len, n = 0, same;
	char *bytes = tensors_of(dir, &len);
	bool is;

	for (p = all->tensors; p < end; p += sizeof(float)) {
		for (same = 0; same < len && same < (size_t)(end - p) && !memcmp(p + same, bytes + same, 4);)
			same += 4;
		if (same > n) {
			at = p;
			n = same;
		}
	}
	is = len > all->len / 8 && len < all->len &&
	     (n == len || memmem(at + n, (size_t)(end - at) - n, bytes + n, len - n));
	free(bytes);
	return is;
}

/* The number behind `key`, as it is written. */
static const char *value_of(const char *line, const char *key, int *len)
{
	const char *at = strstr(line, key);

	at = at ? at + strlen(key) : "";
	*len = (int)strcspn(at, ",}");
	return at;
}

/* The losses of steps and evaluations, a line each, without steps that were skipped, nor those that `member` missed;
 * -1: with them. The rates of steps into rate[] by the way. */
static char *losses_of(const char *dir, bool evaluations, int member, double rate[SIM_STEPS])
{
	static const char *const key[][3] = {{"{\"type\":\"step\"", "\"step\":", "\"loss\":"},
					     {"{\"type\":\"epoch\"", "\"epoch\":", "\"test_loss\":"}};
	char path[256], line[8192], *out = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&out, &len), *f;

	snprintf(path, sizeof path, "%s/log.jsonl", dir);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		for (int i = 0; i <= evaluations; i++) {
			int n, m, lr;
			const char *number = value_of(line, key[i][1], &n), *loss = value_of(line, key[i][2], &m);
			const long step = strtol(number, NULL, 10);

			if (strncmp(line, key[i][0], strlen(key[i][0])) != 0 || !n || !m || strstr(line, "\"skipped\""))
				continue;
			if (i == 0 && member >= 0 && step > 0 && step <= SIM_STEPS && sim.missed[step - 1][member])
				continue;
			fprintf(to, "%s %.*s %.*s\n", i ? "evaluation" : "step", n, number, m, loss);
			if (rate && i == 0 && step > 0 && step <= SIM_STEPS)
				rate[step - 1] = strtod(value_of(line, "\"lr\":", &lr), NULL);
		}
	if (f)
		fclose(f);
	fclose(to);
	return out;
}

/* ---- the reference ---- */

bool sim_row_owes_none(const struct sim_row *row)
{
	return strstr(row->sets, "share.least=0 ") != NULL;
}

bool sim_row_is_vertical(const struct sim_row *row)
{
	return strstr(row->sets, "share.mode=vertical") != NULL;
}

const char *sim_row_party_sets(const struct sim_row *row, int k)
{
	static const char *const three[] = {" share.role=features share.inputs=left",
					    " share.role=features share.inputs=right",
					    " share.role=labels share.inputs=more"};

	return row->members == 3 ? three[k] : k ? " share.role=labels" : " share.role=features";
}

/* In rounds a member may have done its part of a step that its group then does without it. */
static bool does_parts(const struct sim_row *row)
{
	return strstr(row->sets, "share.mode=rounds") != NULL;
}

/* Runs `splitc train --local` with the row's settings and `more` of them. absent: for --absent, unless empty. It runs
 * in the folder `data`, since the config names ../data, and writes into log_dir, which is beside `data`. */
static bool run_local(const struct sim_row *row, const char *more, const char *absent, const char *data,
		      const char *log_dir)
{
	char option[160], control[160], clients[8], party[SIM_MEMBERS][32], sets[SIM_TEXT + 2176], *next = sets, *word;
	const char *argv[2 * SETS_MOST] = {program, "train", sim_config(row), "--local",
					   "--set", option,  "--set",         control};
	int argc = 8, status;
	pid_t pid;

	snprintf(option, sizeof option, "log.dir=../%s", log_dir);
	snprintf(control, sizeof control, "control=../%s.sock", log_dir);
	snprintf(sets, sizeof sets, "%s %s%s", row->sets, more, row->members ? " share.group=g" : "");
	if (sim_row_is_vertical(row))
		sprintf(sets + strlen(sets), "%s share.member=0 share.clients=%d", sim_row_party_sets(row, 0),
			row->members);
	while ((word = strsep(&next, " ")) && argc < 2 * SETS_MOST - 6)
		if (*word) {
			argv[argc++] = "--set";
			argv[argc++] = word;
		}
	snprintf(clients, sizeof clients, "%d", row->members);
	if (sim_row_is_vertical(row)) {
		for (int k = 1; k < row->members; k++) {
			argv[argc++] = "--party";
			argv[argc++] = party[k];
			snprintf(party[k], sizeof party[k], "../%s%s.yaml",
				 row->members == 2 ? "labels"
				 : k == 1          ? "three-1"
						   : "three-2",
				 strstr(row->sets, "clip_norm") ? "-clip" : "");
		}
	} else if (row->members) {
		argv[argc++] = "--clients";
		argv[argc++] = clients;
	}
	if (*absent) {
		argv[argc++] = "--absent";
		argv[argc++] = absent;
	}
	pid = fork();
	if (pid == 0) {
		const int quiet = open("reference.log", O_WRONLY | O_CREAT | O_APPEND, 0666);

		dup2(quiet, 1);
		dup2(quiet, 2);
		(void)!chdir(data);
		execv(program, (char **)(uintptr_t)argv);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

/* The outcome of each member of a run in that folder. One that missed all steps has no losses. */
static bool read_outcome(const struct sim_row *row, const char *folder, struct outcome out[SIM_MEMBERS])
{
	bool any = false;
	char dir[128];

	for (int k = 0; k < (row->members ? row->members : 1); k++) {
		snprintf(dir, sizeof dir, row->members && !sim_row_is_vertical(row) ? "%s/member-%d" : "%s", folder, k);
		out[k] = (struct outcome){
			.weights = weights_of(dir),
			.losses = losses_of(dir, row->oracle != SIM_ABSENT, does_parts(row) ? k : -1, NULL)};
		if (sim_row_is_vertical(row))
			out[k].tensors = tensors_of(dir, &out[k].len);
		any = any || (out[k].weights && out[k].losses[0]);
	}
	return any;
}

bool sim_reference_make(const struct sim_row *row, const char *splitc)
{
	const long at = row - sim_row;
	char dir[32];

	program = splitc;
	if (at >= ROWS_MOST || reference[at][0].losses)
		return at < ROWS_MOST;
	snprintf(dir, sizeof dir, "reference-%ld", at);
	return run_local(row, row->oracle == SIM_LONGER ? "train.epochs=5" : "", "", "data", dir) &&
	       read_outcome(row, dir, reference[at]);
}

/* As the server's log has it. */
static void list_absent(char *out, size_t cap)
{
	snprintf(out, cap, "%s", sim.absent);
}

/* A constant rate for each step, of which an epoch has ten: they are read from the log. */
static void list_rates(char *out, size_t cap)
{
	double rate[SIM_STEPS] = {0};
	size_t len;

	free(losses_of("client/run0", false, -1, rate));
	len = (size_t)snprintf(out, cap, "train.schedule.kind=points train.schedule.points=[");
	for (int step = 0; step < SIM_STEPS && rate[step] > 0 && len < cap; step++)
		len += (size_t)snprintf(out + len, cap - len, "%s%.1f:%g", step ? "," : "", step / 10.0, rate[step]);
	if (len < cap)
		snprintf(out + len, cap - len, "]");
}

/* The reference of a row that is told what happened in this seed, into `told`. */
static bool tell_reference(const struct sim_row *row, struct outcome told[SIM_MEMBERS])
{
	char what[sizeof sim.absent], here[PATH_MAX], dir[64];

	if (!getcwd(here, sizeof here))
		return false;
	snprintf(dir, sizeof dir, "%s/told", strrchr(here, '/') + 1);
	(row->oracle == SIM_RATES ? list_rates : list_absent)(what, sizeof what);
	sim_trace("told: %s", what);
	return run_local(row, row->oracle == SIM_RATES ? what : "", row->oracle == SIM_RATES ? "" : what, "../data",
			 dir) &&
	       read_outcome(row, "told", told);
}

/* ---- the comparison ---- */

/* The first line of `some` that is none of `all`; NULL: there is none. */
static const char *first_other(char *some, const char *all)
{
	for (char *line; (line = strsep(&some, "\n"));) {
		const char *is = *line ? strstr(all, line) : NULL;

		if (*line && (!is || is[strlen(line)] != '\n'))
			return line;
	}
	return NULL;
}

void sim_compare(const struct sim_row *row)
{
	struct outcome *is = reference[row - sim_row], told[SIM_MEMBERS];
	/* where each step needs all, a member that lost files got head and tail, or went on with its own */
	const bool listed = row->oracle == SIM_LOCAL && row->members && sim.absent[0] && sim_fired(SIM_LOSES_FILES);
	const bool lacks = row->oracle == SIM_ABSENT || listed || sim_fired(1u << SIM_FULL | 1u << SIM_IO_ERROR);

	if (row->oracle == SIM_ABSENT)
		(void)sim_row_lacks(row);
	if (listed || row->oracle == SIM_ABSENT || row->oracle == SIM_RATES) {
		is = told;
		if (!tell_reference(row, told)) {
			sim_fail("the reference that is told what happened has failed");
			return;
		}
	}
	for (int k = 0; k < (row->members ? row->members : 1); k++) {
		const char *name = sim_name(&sim.proc[k]);
		char dir[64], *losses;
		const char *other;
		bool without; /* its log is known to have no lines of some steps */

		if (sim.proc[k].left)
			continue;
		if (row->oracle == SIM_ABSENT && !strstr(row->sets, "ends=private"))
			sim_compare_record(k); /* also with who came when it had left */
		snprintf(dir, sizeof dir, "client/run%d", k);
		sim_trace("%s: weights %016llx, told %016llx", name, (unsigned long long)weights_of(dir),
			  (unsigned long long)is[k].weights);
		losses = losses_of(dir, row->oracle != SIM_ABSENT && !sim_came_behind_end(k), does_parts(row) ? k : -1,
				   NULL);
		without =
			!sim_fired(1u << SIM_FULL | 1u << SIM_IO_ERROR) && sim_tells_of_lines(k, losses, is[k].losses);
		if (sim.traced && weights_of(dir) != is[k].weights) {
			char *copy = strdup(losses);

			other = copy ? first_other(copy, is[k].losses) : NULL;
			sim_trace("%s: the first other loss is %s", name, other ? other : "none");
			free(copy);
		}
		if (sim_row_is_vertical(row) ? !is_part_of(&is[k], dir) : weights_of(dir) != is[k].weights)
			sim_fail("%s: other weights than --local", name);
		else if (sim_row_is_vertical(row) && k < row->members - 1) /* it has no losses */
			continue;
		else if (strcmp(losses, is[k].losses) == 0)
			continue;
		else if ((other = first_other(losses, is[k].losses)))
			sim_fail("%s: other losses than --local: %s", name, other);
		else if (!lacks && !without) /* a line may lack that could not be written, or whose member was gone */
			sim_fail("%s: the log lacks steps, or has some twice", name);
	}
}
