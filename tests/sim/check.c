/* What a run must come to: the weights and losses of `splitc train --local`, by the real program. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <xxhash.h>

#include "tests/sim/sim.h"

enum { ROWS_MOST = 64, SETS_MOST = 32 };

struct outcome {
	uint64_t weights; /* a hash; 0: there are none */
	char *losses;     /* a line for each step */
};

static struct outcome reference[ROWS_MOST][SIM_MEMBERS];

static const char client_yaml[] =
	"server: tcp://127.0.0.1:5570\n"
	"model: {name: mlp, classes: 3, features: 4, dropout: 0.2}\n"
	"partition: \"1:-1\"\n"
	"data: {kind: csv, dir: ../data}\n"
	"train: {batch: 12, chunks: 3, epochs: 3, seed: 3, checkpoint_every: 4, optimizer: {kind: adamw, lr: 0.01}}\n"
	"codec: {head_act: \"topk:0.3,ef=true\", mid_act: \"quant:8\", mid_grad: \"quant:6\", head_grad: "
	"\"topk:0.5,ef=true\"}\n"
	"link: {on_server_lost: wait, retry_ms: 20, stall_s: 30, heartbeat_ms: 100, timeout_ms: 2000, "
	"connect_timeout_ms: 2000}\n"
	"threads: 1\n";
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

/* Three classes that overlap, in four columns. */
static void write_table(const char *path, int rows, uint32_t seed)
{
	FILE *f = created(path);

	fputs("a,b,c,d,label\n", f);
	for (int i = 0; i < rows; i++) {
		const int label = (int)((seed = seed * 1664525u + 1013904223u) >> 16) % 3;

		for (int k = 0; k < 4; k++) {
			seed = seed * 1664525u + 1013904223u;
			fprintf(f, "%.4f,", label * (k % 2) - (k == 2) + (double)(seed >> 8) / (1 << 22) - 2);
		}
		fprintf(f, "%c\n", "xyz"[label]);
	}
	fclose(f);
}

void sim_work_make(void)
{
	write_text("client.yaml", client_yaml);
	write_text("server.yaml", server_yaml);
	mkdir("data", 0777);
	write_table("data/train.csv", 120, 5);
	write_table("data/test.csv", 24, 6);
}

/* ---- an outcome ---- */

/* The tensors alone: the file's header has the run's own figures. */
static uint64_t weights_of(const char *dir)
{
	char path[256], *bytes;
	uint64_t head = 0, hash = 0;
	struct stat st;
	int fd;

	snprintf(path, sizeof path, "%s/model.safetensors", dir);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return 0;
	bytes = fstat(fd, &st) ? NULL : malloc((size_t)st.st_size + 1);
	if (bytes && read(fd, bytes, (size_t)st.st_size) == st.st_size && (size_t)st.st_size > sizeof head) {
		memcpy(&head, bytes, sizeof head);
		if (head < (uint64_t)st.st_size - sizeof head)
			hash = XXH3_64bits(bytes + sizeof head + head, (size_t)st.st_size - sizeof head - head);
	}
	free(bytes);
	close(fd);
	return hash;
}

static char *losses_of(const char *dir)
{
	static const char type[] = "{\"type\":\"step\"";
	char path[256], line[8192], *out = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&out, &len), *f;

	snprintf(path, sizeof path, "%s/log.jsonl", dir);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f)) {
		const char *loss = strstr(line, "\"loss\":"), *step = strstr(line, "\"step\":");

		if (loss && step && strncmp(line, type, strlen(type)) == 0)
			fprintf(to, "%.*s %.*s\n", (int)strcspn(step, ","), step, (int)strcspn(loss, ","), loss);
	}
	if (f)
		fclose(f);
	fclose(to);
	return out;
}

/* ---- the reference ---- */

bool sim_reference_make(const struct sim_row *row, const char *splitc)
{
	const long at = row - sim_row;
	char dir[128], option[160], control[160], clients[8], sets[SIM_TEXT], *next = sets, *word;
	const char *argv[2 * SETS_MOST] = {splitc,  "train", "../client.yaml", "--local",
					   "--set", option,  "--set",          control};
	int argc = 8, status;
	pid_t pid;

	if (at >= ROWS_MOST || reference[at][0].losses)
		return at < ROWS_MOST;
	snprintf(option, sizeof option, "log.dir=../reference-%ld", at);
	snprintf(control, sizeof control, "control=../reference-%ld.sock", at);
	snprintf(sets, sizeof sets, "%s", row->sets);
	while ((word = strsep(&next, " ")) && argc < 2 * SETS_MOST - 4)
		if (*word) {
			argv[argc++] = "--set";
			argv[argc++] = word;
		}
	snprintf(clients, sizeof clients, "%d", row->members);
	if (row->members) {
		argv[argc++] = "--clients";
		argv[argc++] = clients;
	}
	pid = fork();
	if (pid == 0) {
		const int quiet = open("reference.log", O_WRONLY | O_CREAT | O_APPEND, 0666);

		dup2(quiet, 1);
		dup2(quiet, 2);
		(void)!chdir("data"); /* the config names ../data */
		execv(splitc, (char **)(uintptr_t)argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		return false;
	for (int k = 0; k < (row->members ? row->members : 1); k++) {
		snprintf(dir, sizeof dir, row->members ? "reference-%ld/member-%d" : "reference-%ld", at, k);
		reference[at][k] = (struct outcome){weights_of(dir), losses_of(dir)};
	}
	return reference[at][0].weights && reference[at][0].losses[0];
}

/* ---- the comparison ---- */

/* Whether each line of `some` is one of `all`. */
static bool are_among(char *some, const char *all)
{
	for (char *line; (line = strsep(&some, "\n"));) {
		const char *is = *line ? strstr(all, line) : NULL;

		if (*line && (!is || is[strlen(line)] != '\n'))
			return false;
	}
	return true;
}

void sim_compare(const struct sim_row *row)
{
	for (int k = 0; k < (row->members ? row->members : 1); k++) {
		const struct outcome *is = &reference[row - sim_row][k];
		const char *name = sim_name(&sim.proc[k]);
		char dir[64], *losses;

		snprintf(dir, sizeof dir, "client/run%d", k);
		losses = losses_of(dir);
		if (weights_of(dir) != is->weights)
			sim_fail("%s: other weights than --local", name);
		else if (strcmp(losses, is->losses) == 0)
			continue;
		else if (!are_among(losses, is->losses))
			sim_fail("%s: other losses than --local", name);
		else if (!sim_fired(1u << SIM_FULL |
				    1u << SIM_IO_ERROR)) /* a line may lack that could not be written */
			sim_fail("%s: the log lacks steps, or has some twice", name);
	}
}
